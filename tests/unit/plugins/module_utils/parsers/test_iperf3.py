# SPDX-License-Identifier: Apache-2.0
"""Reports of iperf3 3.9, 3.12 and 3.16, cut to what is read."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.iperf3 import Throughput, parse_iperf3
from hypothesis import given
from hypothesis import strategies as st

START = {"connected": [], "version": "iperf 3.12", "test_start": {"protocol": "TCP", "num_streams": 4}}
SUM = {"start": 0, "end": 1.0, "seconds": 1.0, "bytes": 1668150784, "sender": True}
DONE = {
    "start": START,
    "intervals": [],
    "end": {
        "sum_sent": {**SUM, "bits_per_second": 13357824384.7, "retransmits": 12},
        "sum_received": {**SUM, "bits_per_second": 13343196471.2},
    },
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(json.dumps(DONE), Throughput(gbit=13.3432), id="received"),
        pytest.param(json.dumps({"end": {"sum_sent": {"bits_per_second": 2e9}}}), Throughput(gbit=2.0), id="only-sent"),
        pytest.param(
            json.dumps({"start": START, "end": {}, "error": "unable to connect to server: Connection refused"}),
            Throughput(problem="iperf3: unable to connect to server: Connection refused"),
            id="refused",
        ),
        pytest.param(
            json.dumps({"end": {}, "error": "error - the server is busy running a test. try again later"}),
            Throughput(problem="iperf3: the server is busy running a test. try again later"),
            id="busy",
        ),
        pytest.param(
            json.dumps({"end": {"sum_received": {"bits_per_second": 0}}}),
            Throughput(problem="iperf3 counted no bytes"),
            id="nothing-arrived",
        ),
        pytest.param("", Throughput(problem="iperf3 printed no report: nothing"), id="empty"),
        pytest.param(
            "iperf3: bad option\n", Throughput(problem="iperf3 printed no report: iperf3: bad option"), id="text"
        ),
        pytest.param("[]", Throughput(problem="iperf3 printed no report"), id="a-list"),
    ],
)
def test_parse(text: str, expected: Throughput) -> None:
    assert parse_iperf3(text) == expected


@given(st.text())
def test_any_text_is_a_figure_or_a_problem(text: str) -> None:
    found = parse_iperf3(text)
    assert (found.gbit is None) == bool(found.problem)
