# SPDX-License-Identifier: Apache-2.0
"""Clusters that grow and shrink: who is meant, who is touched, what restarts, and what is refused."""
