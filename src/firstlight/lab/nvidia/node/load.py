# SPDX-License-Identifier: Apache-2.0
"""What firstlight-lab-nvidia-load.service runs once per boot."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .machine import DescriptionError, load_module, root


def main(arguments: Sequence[str], base: Path | None = None) -> int:
    """Load the installed module; takes no arguments."""
    if arguments:
        print(f"nvidia-load takes no arguments, found: {' '.join(arguments)}", file=sys.stderr)
        return 2
    try:
        print(f"nvidia: {load_module(base or root())}")
    except DescriptionError as error:
        print(f"nvidia: {error}; install a driver package first", file=sys.stderr)
        return 1
    return 0
