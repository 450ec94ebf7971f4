# SPDX-License-Identifier: Apache-2.0
"""Add, replace and remove hosts: which are selected, which change, what restarts, and what is refused."""
