# SPDX-License-Identifier: Apache-2.0
"""The acceptance report of a cluster: its document, built from records, and the page rendered from it."""
