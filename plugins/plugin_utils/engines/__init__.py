# SPDX-License-Identifier: Apache-2.0
"""Engines: their flags, and what is launched."""
