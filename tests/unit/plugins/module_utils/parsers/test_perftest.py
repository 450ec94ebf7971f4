# SPDX-License-Identifier: Apache-2.0
"""ib_write_bw as perftest 4.4, 4.5 and 24.01 print it."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.iperf3 import Throughput
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.perftest import parse_perftest
from hypothesis import given
from hypothesis import strategies as st

RULE = "-" * 87 + "\n"
HEAD = (
    RULE
    + "                    RDMA_Write BW Test\n"
    + " Dual-port       : OFF\t\tDevice         : rocep1s0f1\n"
    + " Number of qps   : 1\t\tTransport type : IB\n"
    + " Mtu             : 4096[B]\n Link type       : Ethernet\n GID index       : 3\n"
    + RULE
    + " local address: LID 0000 QPN 0x0127 PSN 0x5ac4c2 RKey 0x184900 VAddr 0x00f2c8f7a15000\n"
    + RULE
)


def table(unit: str, *rows: str) -> str:
    header = f" #bytes     #iterations    BW peak[{unit}/sec]    BW average[{unit}/sec]   MsgRate[Mpps]\n"
    return HEAD + header + "".join(f"{row}\n" for row in rows) + RULE


@pytest.mark.parametrize(
    ("text", "gbit"),
    [
        pytest.param(
            table("Gb", " 65536      1270000          0.00               110.97 \t\t     0.211664"), 110.97, id="gb"
        ),
        pytest.param(
            table("MB", " 1048576    5000             11520.11           11498.02\t\t   0.011498"), 96.4524, id="mb"
        ),
        pytest.param(
            table("MiB", " 1048576    5000             11520.11           11498.02\t\t   0.0115"), 96.4524, id="mib"
        ),
        pytest.param(
            table(
                "Gb", " 2          5000           0.05       0.04     2.5", " 65536      5000   98.1     97.2    0.18"
            ),
            97.2,
            id="the-largest-message",
        ),
    ],
)
def test_the_average_is_read_in_its_unit(text: str, gbit: float) -> None:
    assert parse_perftest(text) == Throughput(gbit=gbit)


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        (HEAD, "Unable to open file descriptor for socket connection\n", "Unable to open"),
        ("", "IB device rocep9s0 not found\n", "not found"),
        (HEAD, " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n", "error at client"),
        ("", "", "nothing"),
        (table("Gb"), "", "measured nothing"),
    ],
)
def test_a_test_that_failed_says_why(stdout: str, stderr: str, words: str) -> None:
    found = parse_perftest(stdout, stderr)
    assert found.gbit is None
    assert words in found.problem


@given(st.text(), st.text())
def test_any_text_is_a_figure_or_a_problem(stdout: str, stderr: str) -> None:
    found = parse_perftest(stdout, stderr)
    assert (found.gbit is None) == bool(found.problem)
