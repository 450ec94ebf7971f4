# SPDX-License-Identifier: Apache-2.0
"""GPUs as their tools report them: readings, the expectations of a hardware profile, and the checks between them."""
