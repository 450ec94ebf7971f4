# SPDX-License-Identifier: Apache-2.0
"""What runs Molecule's scenarios."""

from __future__ import annotations

import os
import socket

from tests.suite.molecule import claimed


def test_a_lab_is_used_by_one_run_at_a_time() -> None:
    lab = f"test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        assert claimed(first, lab)
        assert not claimed(second, lab)
    with socket.socket(socket.AF_UNIX) as third:
        assert claimed(third, lab)
