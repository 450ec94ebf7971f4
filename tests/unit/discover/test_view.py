# SPDX-License-Identifier: Apache-2.0
"""What is shown and written of what was found."""

from __future__ import annotations

import io
import ipaddress
from typing import Any

import pytest
from rich.console import Console

from firstlight.discover import arp, find, mdns
from firstlight.discover.find import Candidate, as_document
from firstlight.discover.network import Port
from firstlight.discover.probe import Machine
from firstlight.discover.view import row, show
from firstlight.ssh.faults import duplicate_address
from firstlight.ssh.host_keys import HostKey

KEY = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIAwmaaOl67Yg/OYERrXT123KZvVJM4RdhTNZ5+qMDrgA")
SPARK = Machine(hostname="spark-1a2b", serial="S1", mac="02:42:ac:1d:02:0a", gpu_count=1, gpu_names=("NVIDIA GB10",))
PORT = Port("eth1", "02:42:ac:1d:02:01", "10.0.0.1", ipaddress.IPv4Network("10.0.0.0/24"))


def found() -> list[dict[str, Any]]:
    known = Candidate("10.0.0.5", ["02:42:ac:1d:02:0a"], None, ["ARP"], KEY, "pinned", SPARK)
    unknown = Candidate("10.0.0.6", ["02:42:ac:1d:02:0b"], "evil\x1b[2J", ["mDNS"], KEY, "unknown")
    twice = Candidate("10.0.0.7", ["02:42:ac:1d:02:0c", "02:42:ac:1d:02:0d"], None, ["ARP"], KEY, "unknown")
    twice.faults.append(duplicate_address("10.0.0.7", "two"))
    silent = Candidate("10.0.0.8", [], None, ["ARP"], None, "no SSH")
    return [
        as_document(known, "gb10", {0: "empty", 1: "cabled"}),
        *(as_document(one, None, {}) for one in (unknown, twice, silent)),
    ]


def test_a_row_says_what_is_known_and_a_terminal_is_left_alone() -> None:
    first, second, *_ = (row(one) for one in found())
    assert first[4] == f"{KEY.fingerprint} (pinned)"
    assert first[7:9] == ("1 NVIDIA GB10", "0 empty, 1 cabled")
    assert second[1] == "evil\\x1b[2J"


@pytest.mark.parametrize("soft_wrap", [True, False])
def test_the_table_ends_with_what_to_do(soft_wrap: bool) -> None:
    text = io.StringIO()
    show(Console(file=text, width=300, soft_wrap=soft_wrap), found(), ["LLDP (no lldpctl here)"])
    assert "Not queried: LLDP" in text.getvalue()
    assert "the address 10.0.0.7 is used more than once: two" in text.getvalue()
    assert "No login at 10.0.0.6, 10.0.0.7" in text.getvalue()


def test_every_source_adds_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only addresses that were asked for; who answers now counts more than who was here before."""
    said = {
        "ip": '[{"dst": "10.0.0.5", "lladdr": "02:42:ac:1d:02:99"}, '
        '{"dst": "10.0.0.6", "lladdr": "02:42:ac:1d:02:0b"}, {"dst": "192.0.2.9", "lladdr": "02:42:ac:1d:02:77"}]',
        "lldpctl": '{"lldp": {"interface": {"eth1": {"chassis": {"spark7": {"id": {}, "mgmt-ip": "10.0.0.7"}}}}}}',
    }
    monkeypatch.setattr(arp, "sweep", lambda *_: {"10.0.0.5": ["02:42:ac:1d:02:0a"]})
    monkeypatch.setattr(mdns, "ask", lambda _: {"10.0.0.5": "spark-1a2b", "10.0.0.200": "printer"})
    monkeypatch.setattr(find, "_said", lambda *words: said[words[0]])
    monkeypatch.setattr("shutil.which", lambda program: program)
    candidates, missing = find.find(PORT, [f"10.0.0.{number}" for number in range(1, 9)], ["10.0.0.8"])
    assert missing == []
    assert {address: (one.macs, one.name, one.found_by) for address, one in candidates.items()} == {
        "10.0.0.5": (["02:42:ac:1d:02:0a"], "spark-1a2b", ["ARP", "mDNS", "neighbours"]),
        "10.0.0.6": (["02:42:ac:1d:02:0b"], None, ["neighbours"]),
        "10.0.0.7": ([], "spark7", ["LLDP"]),
        "10.0.0.8": ([], None, ["list"]),
    }
