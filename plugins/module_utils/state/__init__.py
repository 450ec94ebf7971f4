# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of desired and observed state, and its comparison for the kinds that every subject speaks of."""
