# SPDX-License-Identifier: Apache-2.0
"""The program that reports a node's state to a monitoring host: it only reads, and needs only the system's Python."""
