# SPDX-License-Identifier: Apache-2.0
"""The acceptance report of a cluster: its document, made from what was recorded, and the page made from that."""
