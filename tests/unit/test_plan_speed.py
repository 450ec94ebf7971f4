# SPDX-License-Identifier: Apache-2.0
"""A plan of many hosts: what all of them share is worked out once."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_plan.py"


@pytest.mark.slow  # plans 256 hosts
def test_many_hosts_take_little_more_than_their_number() -> None:
    """Processor time of one run, compared with itself: 16 times the hosts, and far from 16 times 16 the time."""
    spec = spec_from_file_location("bench_plan", SCRIPT)
    assert spec
    assert spec.loader
    bench = module_from_spec(spec)
    spec.loader.exec_module(bench)
    bench.measure(4)  # the first reads the catalog
    few, many = (bench.measure(hosts)[0] for hosts in (16, 256))
    assert many < 24 * few, f"{few:.2f} s for 16 hosts, {many:.2f} s for 256"
