# SPDX-License-Identifier: Apache-2.0
"""Wanted state and what was observed, side by side, and what is told of the differences."""
