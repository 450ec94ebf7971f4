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
    """Return the archive in base64, the form that the interpreter's start code expects (`runs.START`).

    Its files have a fixed time, so the same modules give the same bytes.
    """
    names = [part.__name__.rpartition(".")[2] for part in PARTS]
    sources = {f"burn_in/{name}.py": pkgutil.get_data(__package__, f"{name}.py") or b"" for name in names}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, source in {"__main__.py": MAIN, "burn_in/__init__.py": b"", **sources}.items():
            archive.writestr(zipfile.ZipInfo(path), source)
    return base64.b64encode(packed.getvalue()).decode()
