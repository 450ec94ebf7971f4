# SPDX-License-Identifier: Apache-2.0
"""Parses `nvidia-smi --version`, in the format up to driver 600 and in that since driver 610."""

from __future__ import annotations

import re
from typing import Any

from .captures import key_value
from .reading import quoted
from .smi_text import VERSION, said

_CUDA = re.compile(r"\d{1,2}\.\d{1,2}")
_KEYS = {
    "nvidia smi version": "tool",
    "nvidia smi": "tool",
    "nvml version": "library",
    "driver version": "driver",
    "kmd version": "driver",
    "cuda version": "cuda",
    "cuda umd version": "cuda",
}


def parse_smi_version(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse the versions of the tool, the library, the driver (the kernel module) and CUDA, as far as they are shown.

    If library and module differ there is only a complaint, which has the library's version without its last part.
    Driver 610 answers the old names with a sentence about the new ones, which is not a version.
    """
    found = said(text)
    data: dict[str, Any] = {}
    for line in found.lines:
        key, value = key_value(line)
        name = _KEYS.get(key)
        if name is None or not value or value.lower().startswith("deprecated"):
            continue
        version = (_CUDA if name == "cuda" else VERSION).match(value)
        if not version or (len(value) > len(version[0]) and not value[len(version[0])].isspace()):
            found.problems.append(f"the {key} is {quoted(value)}, expected a version")
        elif data.get(name, version[0]) != version[0]:
            found.problems.append(f"the {key} is {version[0]} and {data.pop(name)}")
        else:
            data[name] = version[0]
    if found.library:
        data["library"] = found.library
    if data or found.trouble:
        data = {**dict.fromkeys(("tool", "library", "driver", "cuda")), **data, "trouble": found.trouble}
    else:
        first = next((line for line in found.lines if line.strip()), "")
        found.problems.append(f"no version is in {quoted(first)}")
    return data, found.problems
