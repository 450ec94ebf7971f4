# SPDX-License-Identifier: Apache-2.0
"""GPUs as their tools tell of them: readings, what a hardware profile expects, and checks of the one by the other."""
