# SPDX-License-Identifier: Apache-2.0
"""The program that the role installs on every node: it keeps the serving groups running."""
