# SPDX-License-Identifier: Apache-2.0
"""Run an engine's own benchmark client on a host, and parse what the client and the server report."""
