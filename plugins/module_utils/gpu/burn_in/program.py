# SPDX-License-Identifier: Apache-2.0
"""Packs the workload into a zip archive that Python runs (zipapp), for an interpreter without this project's code."""

from __future__ import annotations

import base64
import io
import pkgutil
import zipfile

from . import host_copy, measure, messages, sampling, workload

PARTS = (host_copy, measure, messages, sampling, workload)
MAIN = b"from burn_in.workload import main\nmain()\n"


def program() -> str:
    """Return the archive in base64, the form that the interpreter's start code expects (`runs.START`)."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("__main__.py", MAIN)
        archive.writestr("burn_in/__init__.py", b"")
        for part in PARTS:
            name = part.__name__.rpartition(".")[2]
            archive.writestr(f"burn_in/{name}.py", pkgutil.get_data(__package__, f"{name}.py") or b"")
    return base64.b64encode(packed.getvalue()).decode()
