# SPDX-License-Identifier: Apache-2.0
"""Runs an engine's own benchmark client on a host, and reads what it and the server say."""
