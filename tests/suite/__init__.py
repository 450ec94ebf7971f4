# SPDX-License-Identifier: Apache-2.0
"""Runs the test suite in parts: `make test`, `make test-all`, and where their minutes went."""
