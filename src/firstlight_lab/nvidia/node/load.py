# SPDX-License-Identifier: Apache-2.0
"""The program of firstlight-lab-nvidia-load.service, run once per boot, and of the module package's build step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .machine import DescriptionError, ModuleError, build_module, load_module, root


def main(arguments: Sequence[str], base: Path | None = None) -> int:
    """Load the installed module or, with --build, build it."""
    if list(arguments) not in ([], ["--build"]):
        print(f"nvidia-load takes --build or nothing, found: {' '.join(arguments)}", file=sys.stderr)
        return 2
    try:
        print(f"nvidia: {(build_module if arguments else load_module)(base or root())}")
    except DescriptionError as error:
        print(f"nvidia: {error}; install a driver package first", file=sys.stderr)
        return 1
    except ModuleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
