# SPDX-License-Identifier: Apache-2.0
"""Rack in a box: real nodes in containers, for the demo, Molecule and the end-to-end tests."""
