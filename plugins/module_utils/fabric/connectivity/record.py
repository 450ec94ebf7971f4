# SPDX-License-Identifier: Apache-2.0
"""The record that a host keeps of a connectivity test: the peers, and the firmware it was tested with."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

from ...host import Host, write_file
from ..firmware import firmware_path, kept_text
from ..firmware_probe import read_versions
from .ping import record_text


def keep_record(params: Mapping[str, Any], host: Host, *, check_mode: bool) -> dict[str, Any]:
    """Write the record of a test that passed, or remove it. Raises OSError if that fails."""
    files = wanted(params, host, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    changed = {path: pair for path, pair in files.items() if pair[0] != pair[1]}
    for path, (_, after) in changed.items():
        if not check_mode:
            put(path, after)
    diff = [
        {"before_header": path, "after_header": path, "before": before or "", "after": after or ""}
        for path, (before, after) in changed.items()
    ]
    return {"changed": bool(changed), "diff": diff}


def put(path: str, after: str | None) -> None:
    """Write this record, or remove it if `after` is None."""
    if after is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    write_file(path, after, 0o644)


def wanted(params: Mapping[str, Any], host: Host, now: str) -> dict[str, tuple[str | None, str | None]]:
    """Return by path the present content and the desired content."""
    path: str = params["path"]
    firmware = firmware_path(path)
    before, before_firmware = host.read_text(path), host.read_text(firmware)
    if params["state"] == "tested":
        kept = kept_text(before_firmware, read_versions(host, [one["port"] for one in params["ports"]]), now)
        return {path: (before, record_text(params["peers"])), firmware: (before_firmware, kept)}
    return {path: (before, None), firmware: (before_firmware, None if params["forget"] else before_firmware)}
