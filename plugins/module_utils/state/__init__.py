# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of desired and observed state, and the comparison of the kinds that all subjects share."""
