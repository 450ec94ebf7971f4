# SPDX-License-Identifier: Apache-2.0
"""The list of all commands, as a process of its own: each is imported after those before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firstlight.cli import COMMANDS


@pytest.mark.slow  # the command in a process of its own
def test_help_lists_every_command() -> None:
    program = Path(sys.executable).with_name("firstlight")
    shown = subprocess.run([program, "--help"], check=True, capture_output=True, text=True, timeout=60).stdout
    for name in COMMANDS:
        assert f"\n    {name} " in shown, name
