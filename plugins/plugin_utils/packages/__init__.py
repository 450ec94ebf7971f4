# SPDX-License-Identifier: Apache-2.0
"""Apt sources with the keys they are signed with."""
