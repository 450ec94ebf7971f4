# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import NodeReport, Order, UnitReport
from ansible_collections.firstlight.cluster.roles.supervisor.program.codec import (
    order_from_data,
    order_to_data,
    report_from_data,
    report_to_data,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.wire import (
    HANDSHAKE_LIMIT,
    LINE_LIMIT,
    Answer,
    Channel,
    HeadHandshake,
    NodeHandshake,
    RefusedError,
    WireError,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

pytestmark = pytest.mark.hostile

HEAD = HeadHandshake("spark0", "a" * 64, {"spark1", "spark2"}, b"h" * 32)
TOKENS = {"spark1": b"the token", "spark2": b"the other one's"}
NODE = NodeHandshake("spark1", "spark0", b"the token", "a" * 64, b"n" * 32)


def greet(head: HeadHandshake = HEAD, node: NodeHandshake = NODE) -> Answer:
    line = node.prove(head.hello())
    return head.answer(line, TOKENS.get(head.claimed(line), b""))


def connected() -> tuple[Channel, Channel]:
    """Both ends of a proven connection: the head's, then the node's."""
    answer = greet()
    assert answer.channel is not None
    return answer.channel, NODE.accept(HEAD.hello(), answer.reply)


def test_both_sides_prove_themselves_and_talk() -> None:
    head, node = connected()
    assert greet().node == "spark1"
    for number in range(3):
        assert head.open(node.seal({"report": number})) == {"report": number}
        assert node.open(head.seal({"order": number})) == {"order": number}


def test_the_token_is_never_on_the_wire() -> None:
    said = HEAD.hello() + NODE.prove(HEAD.hello()) + greet().reply
    assert b"the token" not in said
    assert b"the token".hex().encode() not in said


@pytest.mark.hostile
def test_a_node_without_a_token_on_the_head_is_refused_whatever_it_proves() -> None:
    line = replace(NODE, token=b"").prove(HEAD.hello())
    answer = HEAD.answer(line, b"")
    assert (answer.channel, answer.refusal and answer.refusal.kind) == (None, "token")


@pytest.mark.hostile
def test_no_node_can_pose_as_the_head_to_another() -> None:
    """spark1 has taken the head's address, and answers spark2 with the only token that it has."""
    victim = replace(NODE, node="spark2", token=TOKENS["spark2"])
    hello = HEAD.hello()
    line = victim.prove(hello)
    assert HEAD.answer(line, TOKENS["spark1"]).channel is None
    own = replace(NODE, node="spark2", token=TOKENS["spark1"]).prove(hello)
    forged = HEAD.answer(own, TOKENS["spark1"])
    assert forged.channel is not None
    with pytest.raises(RefusedError, match="the token of spark2 does not match the one"):
        victim.accept(hello, forged.reply)


@pytest.mark.parametrize(
    ("node", "kind", "words"),
    [
        (replace(NODE, token=b"another"), "token", "the token of spark1 does not match the one on spark0"),
        (replace(NODE, plan="b" * 64), "plan", "spark1 was set up with a different plan (bbbbbbbbbbbb) than spark0"),
        (replace(NODE, node="spark9"), "node", "spark9 is not in the plan of spark0: roll out"),
        # Nobody is let in for knowing that there is no token, and nobody with another node's.
        (replace(NODE, node="spark9", token=b""), "node", "spark9 is not in the plan of spark0: roll out"),
        (replace(NODE, node="spark2"), "token", "the token of spark2 does not match the one on spark0"),
    ],
)
def test_who_does_not_belong_is_refused_with_the_reason_on_both_sides(
    node: NodeHandshake, kind: str, words: str
) -> None:
    answer = greet(node=node)
    assert answer.channel is None
    assert answer.refusal is not None
    assert answer.refusal.kind == kind
    assert str(answer.refusal).startswith(words)
    with pytest.raises(RefusedError) as refused:
        node.accept(HEAD.hello(), answer.reply)
    assert (refused.value.kind, str(refused.value)) == (kind, str(answer.refusal))


def test_another_version_is_named_on_both_sides() -> None:
    proof = json.loads(NODE.prove(HEAD.hello()))
    answer = HEAD.answer(json.dumps({**proof, "version": 7}).encode(), TOKENS["spark1"])
    assert str(answer.refusal).startswith("the supervisor of spark1 speaks version 7, that of spark0 version 1")
    hello = json.dumps({**json.loads(HEAD.hello()), "version": 7}).encode()
    with pytest.raises(RefusedError, match="the supervisor of spark0 speaks version 7, that of spark1 version 1"):
        NODE.prove(hello)


def test_a_node_does_not_follow_a_head_of_another_cluster() -> None:
    with pytest.raises(RefusedError, match="is the head 'spark7', spark1 belongs to spark0"):
        NODE.prove(replace(HEAD, head="spark7").hello())


def test_a_head_without_the_token_is_found_out() -> None:
    """It takes the proof for granted, so that its own is all that is wrong."""
    proof = json.dumps({"proof": "0" * 64}).encode()
    with pytest.raises(RefusedError, match="the token of spark1 does not match the one on spark0"):
        NODE.accept(HEAD.hello(), proof)


def test_a_proof_is_good_for_one_connection_only() -> None:
    proof = NODE.prove(HEAD.hello())
    answer = replace(HEAD, nonce=b"x" * 32).answer(proof, TOKENS["spark1"])
    assert answer.refusal is not None
    assert answer.refusal.kind == "token"


def test_a_proof_cannot_be_turned_around() -> None:
    """What the node has said is no answer to the node."""
    reply = json.dumps({"proof": json.loads(NODE.prove(HEAD.hello()))["proof"]}).encode()
    with pytest.raises(RefusedError):
        NODE.accept(HEAD.hello(), reply)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"GET / HTTP/1.1\r\n",
        b"[]",
        b"[" * 4000,
        b'{"version":1}',
        b'{"version":1,"node":"spark1","plan":"a","nonce":"zz","proof":"x"}',
        b'{"version":1,"node":"spark1","plan":"a","nonce":"00","proof":"x"}',
        b'{"version":1,"node":"spark\\u00e9","plan":"a","nonce":"00","proof":"x"}',
        b" " * (HANDSHAKE_LIMIT + 1),
    ],
)
def test_strangers_get_no_answer(line: bytes) -> None:
    with pytest.raises(WireError):
        HEAD.answer(line, TOKENS["spark1"])


def test_a_line_that_was_repeated_skipped_or_turned_around_ends_the_connection() -> None:
    head, node = connected()
    first, second = node.seal({"n": 1}), node.seal({"n": 2})
    head.open(first)
    with pytest.raises(WireError, match="received line 1, expected line 2"):
        head.open(first)
    head, node = connected()
    with pytest.raises(WireError, match="received line 2, expected line 1"):
        head.open(second)
    with pytest.raises(WireError, match="wrong MAC"):
        node.open(first)


@examples(60)
@given(where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_changed_bit_is_found(where: int, bit: int) -> None:
    head, node = connected()
    line = bytearray(node.seal({"report": {"node": "spark1", "clean": True}}).rstrip(b"\n"))
    line[where % len(line)] ^= 1 << bit
    with pytest.raises(WireError):
        head.open(bytes(line))


def test_lines_have_a_limit() -> None:
    head, node = connected()
    with pytest.raises(WireError, match=f"at most {LINE_LIMIT}"):
        node.seal({"words": "x" * LINE_LIMIT})
    with pytest.raises(WireError, match=f"at most {LINE_LIMIT}"):
        head.open(b"x" * (LINE_LIMIT + 1))


REPORT = NodeReport(
    "spark1",
    "e1",
    2,
    "e0",
    "e1",
    {"ray": UnitReport(active=True, running=True, words="active"), "server": UnitReport(failed=True, last_line="oom")},
    clean=False,
    ready=False,
    problems=("its memory is not back",),
    memory_free=5,
    boot="b",
)


def test_reports_and_orders_come_back_as_they_went() -> None:
    head, node = connected()
    order = Order("e1", 2, {"spark1": "b"}, adopt=True, force=True, loading=True)
    assert report_from_data(head.open(node.seal(report_to_data(REPORT)))) == REPORT
    assert order_from_data(node.open(head.seal(order_to_data(order)))) == order


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert report_from_data({**report_to_data(REPORT), "temperature": 70}) == REPORT


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"node": 1},
        {"node": "a", "clean": "yes"},
        {"node": "a", "stage": True},
        {"node": "a", "problems": "no"},
        {"node": "a", "problems": [1]},
        {"node": "a", "units": []},
        {"node": "a", "units": {"ray": {"active": 1}}},
    ],
)
def test_a_report_of_another_shape_is_an_error(data: Any) -> None:
    with pytest.raises(WireError):
        report_from_data(data)


@pytest.mark.parametrize(
    "data", [None, {}, {"epoch": None}, {"epoch": "e", "boots": {"a": 1}}, {"epoch": "e", "boots": 1}]
)
def test_an_order_of_another_shape_is_an_error(data: Any) -> None:
    with pytest.raises(WireError):
        order_from_data(data)
