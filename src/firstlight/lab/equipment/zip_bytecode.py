# SPDX-License-Identifier: Apache-2.0
"""Remember what Python compiles from zip files.

An Ansible module is sent as a zip file of sources, and Python keeps no bytecode of those: every task compiles the same
sixty files again, on every node. A real node has processors of its own for that, the lab's nodes share a few. Code that
was compiled once, from the same bytes at the same place in a zip, is read from a directory of root's instead.
"""

from __future__ import annotations

import marshal
import os
import sys
import zipimport
from _imp import source_hash
from types import CodeType

DIRECTORY = f"/var/cache/lab-bytecode/{sys.implementation.cache_tag}"
ZIPIMPORT = vars(zipimport)
compiled = ZIPIMPORT["_compile_source"]


def remembered(path: str, source: bytes) -> CodeType:
    _, _, inside = path.partition(".zip/")
    name = inside.replace("/", "-") + "." + source_hash(len(source), source).hex()
    kept = os.path.join(DIRECTORY, name)
    try:
        with open(kept, "rb") as file:
            code: CodeType = marshal.load(file)  # noqa: S302 (only root can write there)
        return code
    except (OSError, EOFError, ValueError, TypeError):
        pass  # not there yet, or its writer was cut off, or this is not root
    code = compiled(path, source)
    try:
        partial = f"{kept}.{os.getpid()}"
        with open(partial, "wb") as file:
            marshal.dump(code, file)
        os.replace(partial, kept)
    except OSError:
        pass  # a disk that is full, or not root's process: compiled every time, as everywhere else
    return code


ZIPIMPORT["_compile_source"] = remembered
