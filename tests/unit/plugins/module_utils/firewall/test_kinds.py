# SPDX-License-Identifier: Apache-2.0
"""The rules in force against those of the file."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.kinds import compare_listings
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ideal import ideal

PATH = "/etc/firstlight/firewall.nft"
WANTED = {"rulesets": {PATH: {"loaded": True}}}
LISTING = """table inet firstlight {
	counter input_dropped {
	}

	chain input {
		type filter hook input priority filter; policy drop;
		iifname "lo" accept
		tcp dport 22 accept
		counter name "input_dropped"
	}

	chain fabric {
		counter name "fabric_dropped" drop
	}
}
"""


def test_a_right_host_has_no_difference() -> None:
    assert differences(WANTED, ideal(WANTED)) == []
    gone = {"rulesets": {PATH: {"loaded": False}}}
    assert differences(gone, ideal(gone)) == []
    assert compare_listings(LISTING, LISTING) == ([], [])


@pytest.mark.parametrize(
    ("change", "missing", "added"),
    [
        (("policy drop", "policy accept"), ["policy drop;"], ["policy accept;"]),
        (("tcp dport 22 accept", "tcp dport 22 accept\n\t\taccept"), [], ["chain input: accept"]),
        (('\t\tcounter name "fabric_dropped" drop\n', ""), ['chain fabric: counter name "fabric_dropped" drop'], []),
        (("firstlight {\n", "firstlight {\n\tflags dormant\n"), [], ["table inet firstlight: flags dormant"]),
        (
            (
                '\t\tiifname "lo" accept\n\t\ttcp dport 22 accept\n',
                '\t\ttcp dport 22 accept\n\t\tiifname "lo" accept\n',
            ),
            ["chain input: tcp dport 22 accept"],
            ["chain input: tcp dport 22 accept"],
        ),
    ],
)
def test_every_change_is_seen(change: tuple[str, str], missing: list[str], added: list[str]) -> None:
    live = LISTING.replace(*change)
    assert live != LISTING
    lacks, has = compare_listings(LISTING, live)
    for expected, found in ((missing, lacks), (added, has)):
        assert len(expected) == len(found)
        assert all(one in other for one, other in zip(expected, found, strict=True))


@given(st.data())
def test_no_line_can_go_or_come_unseen(data: st.DataObject) -> None:
    lines = LISTING.splitlines(keepends=True)
    rules = [number for number, line in enumerate(lines) if line.startswith("\t\t")]
    number = data.draw(st.sampled_from(rules))
    without = "".join(line for place, line in enumerate(lines) if place != number)
    assert compare_listings(LISTING, without)[0]
    assert compare_listings(without, LISTING)[1]


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        ({"loaded": False}, "are not in force, expected them in force"),
        ({"loaded": True, "added": ["chain input: accept"]}, "(with `chain input: accept`), expected exactly these"),
        ({"loaded": True, "missing": [f"rule {n}" for n in range(8)]}, "`rule 5` and 2 more"),
        ({"loaded": True, "error": "nft is broken"}, "cannot be compared (nft is broken)"),
        (None, "are unknown, expected them in force"),
    ],
)
def test_a_difference_is_told(observed: dict[str, Any] | None, words: str) -> None:
    (told,) = explain(differences(WANTED, {"rulesets": {PATH: observed} if observed else {}}))
    assert words in told


def test_rules_that_should_be_gone_are_told() -> None:
    (told,) = explain(differences({"rulesets": {PATH: {"loaded": False}}}, {"rulesets": {PATH: {"loaded": True}}}))
    assert told == f"the rules of {PATH} are in force, expected none"
