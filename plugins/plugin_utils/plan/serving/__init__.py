# SPDX-License-Identifier: Apache-2.0
"""The serving part of a plan: the engine, its settings, its launch, and its supervision."""
