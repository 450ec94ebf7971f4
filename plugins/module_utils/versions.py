# SPDX-License-Identifier: Apache-2.0
"""Compare versions of engines, drivers and libraries.

The order is that of Python packages (PEP 440): numbers are padded with zeros, so that 0.17 is 0.17.0; development
releases and candidates come before the release, post-releases after it. Suffixes of a builder (+cu130, -0ubuntu1) are
ignored.
"""

from __future__ import annotations

import re

_LONGEST = 200
_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d{1,9})!)?(?P<release>\d{1,18}(?:\.\d{1,18})*)"
    r"(?:[-_.]?(?P<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre_number>\d{0,9})(?![a-z]))?"
    r"(?:[-_.]?(?:post|rev|r)[-_.]?(?P<post>\d{0,9})(?![a-z]))?"
    r"(?:[-_.]?dev[-_.]?(?P<dev>\d{0,9})(?![a-z]))?"
)
_STAGES = {"a": 0, "alpha": 0, "b": 1, "beta": 1}
_CANDIDATE, _RELEASED = 2, 3
_NEVER = 1 << 62
"""Sorts the release itself after any of its development releases."""

Key = tuple[int, tuple[int, ...], tuple[int, int], int, int]


def version_key(version: str | None) -> Key | None:
    """Return a sort key for a version; None if the text does not start with a number."""
    found = _VERSION.match(str(version).strip().lower()[:_LONGEST]) if version is not None else None
    if found is None:
        return None
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and not release[-1]:
        release.pop()
    before = (_RELEASED, 0)
    if found["pre"] is not None:
        before = (_STAGES.get(found["pre"], _CANDIDATE), int(found["pre_number"] or 0))
    elif found["post"] is None and found["dev"] is not None:
        before = (-1, 0)  # 1.0.dev1 is older than 1.0a1
    after = -1 if found["post"] is None else int(found["post"] or 0)
    development = _NEVER if found["dev"] is None else int(found["dev"] or 0)
    return int(found["epoch"] or 0), tuple(release), before, after, development


def is_older(version: str | None, than: str | None) -> bool:
    """Whether both versions are known and the first is the older one."""
    left, right = version_key(version), version_key(than)
    return left is not None and right is not None and left < right
