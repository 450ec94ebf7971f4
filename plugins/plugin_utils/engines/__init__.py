# SPDX-License-Identifier: Apache-2.0
"""Inference engines: their flags, settings files, environment variables and containers."""
