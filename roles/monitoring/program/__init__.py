# SPDX-License-Identifier: Apache-2.0
"""The program that tells a monitoring host how a node is: it only reads, and needs nothing but system Python."""
