# SPDX-License-Identifier: Apache-2.0
"""The one name that is used when the clients are imported."""

from __future__ import annotations


class FileSystem:
    """A client of some storage."""
