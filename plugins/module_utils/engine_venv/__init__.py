# SPDX-License-Identifier: Apache-2.0
"""The engine's virtual environment: its lock, its layout, and how it is built."""
