# SPDX-License-Identifier: Apache-2.0
"""Parses a CUDA toolkit's version: its compiler's output, and the file that names the release."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_NVCC = re.compile(r"(?m)^Cuda compilation tools, release (?P<release>\d+\.\d+), V(?P<compiler>\d+(?:\.\d+)+)\s*$")


@dataclass(frozen=True)
class Compiler:
    """The version of nvcc: for example release 13.0, version 13.0.88."""

    release: str | None = None
    version: str | None = None


def parse_nvcc_version(text: str) -> Compiler:
    """Parse `nvcc --version`; the result is empty for other text."""
    found = _NVCC.search(text)
    return Compiler(found["release"], found["compiler"]) if found else Compiler()


def parse_version_json(text: str | None) -> str | None:
    """Return the full release (13.0.2) from the toolkit's version.json; not every package set has that file."""
    try:
        found = json.loads(text or "")
        return str(found["cuda"]["version"])
    except (ValueError, KeyError, TypeError):
        return None
