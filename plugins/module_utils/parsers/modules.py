# SPDX-License-Identifier: Apache-2.0
"""Parses `lsmod` and /proc/modules: the loaded kernel modules, and the kernel release if `uname` was captured, too."""

from __future__ import annotations

import re
from typing import Any

from .captures import capture_lines, is_prompt
from .reading import quoted

_MODULE = re.compile(r"^\s*(?P<name>[A-Za-z][\w-]{0,63})\s+(?P<size>\d{3,10})\s+(?:-|\d{1,6})(?:\s+\S.{0,2000})?$")
_KERNEL = re.compile(r"^\s*Linux\s+(?:\S+\s+)?(?P<release>\d+\.\d+[\w.+~-]*)")
_STATUS = re.compile(r"^\s*(?:#|rc\s*=|Module\s+Size\s+Used)")


def parse_modules(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse the module names, with - as _, and the kernel release; any other line is a problem."""
    names: list[str] = []
    problems: list[str] = []
    kernel: str | None = None
    for line in capture_lines(text):
        module, release = _MODULE.match(line), _KERNEL.match(line)
        if module:
            names.append(module["name"].replace("-", "_"))
        elif release:
            kernel = release["release"]
        elif line.strip() and not _STATUS.match(line) and not is_prompt(line):
            problems.append(f"a line is not understood: {quoted(line)}")
    if not names:
        return {}, problems or ["no module is listed"]
    return {"modules": sorted(set(names)), "kernel": kernel}, problems
