# SPDX-License-Identifier: Apache-2.0
"""Parses `nvidia-smi -L`: one line per GPU, followed by its MIG devices."""

from __future__ import annotations

import re
from typing import Any

from .reading import quoted
from .smi_text import Gpu, document, said

_GPU = re.compile(r"^\s*GPU\s+(?P<index>\d{1,3}):\s*(?P<name>\S.*?)\s*\(UUID:\s*(?P<uuid>[^)\s]+)\s*\)\s*$")
_MIG = re.compile(r"^\s*MIG\s+(?P<profile>\S+)\s+Device\s+(?P<device>\d{1,3}):\s*\(UUID:\s*(?P<uuid>[^)\s]+)\s*\)\s*$")
_BEGUN = re.compile(r"^\s*(?:GPU\s+\d|MIG\s+\S)")


def parse_smi_list(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse the GPUs and the MIG devices, which do not count as GPUs."""
    found = said(text)
    gpus: list[dict[str, Any]] = []
    mig: list[dict[str, Any]] = []
    unread = 0
    cut = False
    for line in found.lines:
        cut = cut and not line.strip()
        listed, part = _GPU.match(line), _MIG.match(line)
        if listed:
            gpu = Gpu(found, index=int(listed["index"]))
            gpu.take("name", listed["name"])
            gpu.take("uuid", listed["uuid"])
            gpus.append(gpu.done())
        elif part:
            owner = gpus[-1]["index"] if gpus else None
            mig.append({"gpu": owner, "device": int(part["device"]), "profile": part["profile"], "uuid": part["uuid"]})
        elif line.strip() and (_BEGUN.match(line) or gpus):
            unread, cut = unread + 1, True
            found.problems.append(f"a line is not understood: {quoted(line)}")
    complete = bool(gpus) and not unread and not found.problems
    return document(found, gpus, complete=complete, mig=mig, understood=mig, unread=unread, cut=cut)
