# SPDX-License-Identifier: Apache-2.0
"""Stands for Apache Arrow in the lab's image, where the real one would be 166 MB.

Ray Serve imports Arrow's clients of cloud storage, and Ray then tells its serializer of Arrow's tables. The lab has
neither.
"""

from __future__ import annotations


class Table:
    """A table."""


class Schema:
    """The columns of a table."""
