# SPDX-License-Identifier: Apache-2.0
"""Compare desired and observed state, and report the differences."""
