# SPDX-License-Identifier: Apache-2.0
"""A serving cluster day by day, as far as it can be judged without touching a host."""
