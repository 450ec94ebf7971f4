# SPDX-License-Identifier: Apache-2.0
"""Sizing: what fits, how it may be split, and how fast it will be."""
