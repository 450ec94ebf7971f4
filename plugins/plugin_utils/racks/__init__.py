# SPDX-License-Identifier: Apache-2.0
"""Expand short rack descriptions to hosts with names, addresses and groups."""
