# SPDX-License-Identifier: Apache-2.0
"""The protocol of supervisors over the fabric: lines, a handshake, and a MAC on every line. No sockets here.

Both sides prove that they hold the node's token without sending it: each answers the other's nonce with an HMAC. Every
node has its own token, which only the head has besides it: no node can pose as another, nor as the head to another.
Every later line carries a MAC with a key for this connection and direction, and a number one higher than the line
before: without the token, nobody can forge, modify, replay, drop or reorder a line undetected. The lines contain no
secrets and are not encrypted.

The handshake states the reason of a refusal, because the operator has to find it out: another version of the
supervisor, another token, another plan, or a node that the plan does not know.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

VERSION = 1
HANDSHAKE_LIMIT = 4096
"""The most bytes of a line before the other side is authenticated."""
LINE_LIMIT = 262_144
"""The most bytes of any line."""
NONCE_BYTES = 32

_MAC_LENGTH = 64
_TO_HEAD, _TO_NODE = b"to the head", b"to the node"


class WireError(Exception):
    """A line is broken or forged: the connection ends here."""


class RefusedError(WireError):
    """The other side does not belong to the cluster or to this plan of it; `kind` gives the reason in one word."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


class Channel:
    """One side of an authenticated connection: seals outgoing lines and opens incoming ones."""

    def __init__(self, key: bytes, outgoing: bytes, incoming: bytes) -> None:
        self._send_key, self._receive_key = _mac(key, outgoing), _mac(key, incoming)
        self._sent = self._received = 0

    def seal(self, body: Mapping[str, Any]) -> bytes:
        """Return `body` as a line for the other side."""
        self._sent += 1
        text = _dump({"number": self._sent, "body": body})
        line = _hex_mac(self._send_key, text) + b" " + text + b"\n"
        if len(line) > LINE_LIMIT:
            raise WireError(f"cannot send a line of {len(line)} bytes, at most {LINE_LIMIT} are allowed")
        return line

    def open(self, line: bytes) -> dict[str, Any]:
        """Return the body of a received line. Raises WireError unless it is authentic and next in order."""
        if len(line) > LINE_LIMIT:
            raise WireError(f"received a line of {len(line)} bytes, at most {LINE_LIMIT} are allowed")
        mac, _, text = line.rstrip(b"\n").partition(b" ")
        if len(mac) != _MAC_LENGTH or not hmac.compare_digest(mac, _hex_mac(self._receive_key, text)):
            raise WireError(
                "received a line with a wrong MAC: it was changed in transit or does not belong to this connection"
            )
        message = _load(text)
        self._received += 1
        if message.get("number") != self._received:
            raise WireError(
                f"received line {message.get('number')}, expected line {self._received}: "
                "lines were lost, repeated or injected"
            )
        body = message.get("body")
        if not isinstance(body, dict):
            raise WireError("received a line without a body")
        return body


@dataclass(frozen=True)
class Answer:
    """The head's answer to a node's proof. `reply` is sent in any case; without a channel, the connection ends."""

    reply: bytes
    node: str = ""
    """The claimed name; proven if there is a channel, or if the refusal has a reason checked after the token."""
    channel: Channel | None = None
    refusal: RefusedError | None = None


@dataclass(frozen=True)
class HeadHandshake:
    """The head's side of one handshake. `nonce` is NONCE_BYTES random bytes, new for every connection."""

    head: str
    plan: str
    nodes: Collection[str]
    nonce: bytes

    def hello(self) -> bytes:
        return _dump({"version": VERSION, "head": self.head, "nonce": self.nonce.hex()}) + b"\n"

    def claimed(self, line: bytes) -> str:
        """Return the node that a proof claims to be from; raises WireError if it is no proof.

        The name selects the token with which the proof is verified.
        """
        return _text(_handshake_line(line), "node")

    def answer(self, line: bytes, token: bytes) -> Answer:
        """Verify a node's proof with the head's copy of its token; without a token, nothing is accepted.

        Raises WireError for an invalid message, which is not answered.
        """
        said = _handshake_line(line)
        node = _text(said, "node")
        if said.get("version") != VERSION:
            return _refuse(node, "version", _other_version(node, said.get("version"), self.head))
        if node not in self.nodes:
            # Nothing is proven yet, so do not reveal the nodes of the plan.
            words = f"{node} is not in the plan of {self.head}: roll out the same inventory on all nodes"
            return _refuse(node, "node", words)
        claim = _Claim(self.head, node, _text(said, "plan"), self.nonce, _nonce(said))
        proven = hmac.compare_digest(_text(said, "proof").encode(), _hex_mac(token, claim.text(_TO_HEAD)))
        if not token or not proven:
            return _refuse(node, "token", _other_token(node, self.head))
        if claim.plan != self.plan:
            return _refuse(node, "plan", _other_plan(node, claim.plan, self.head, self.plan))
        proof = _hex_mac(token, claim.text(_TO_NODE)).decode()
        return Answer(_dump({"proof": proof}) + b"\n", node, claim.channel(token, _TO_NODE, _TO_HEAD))


@dataclass(frozen=True)
class NodeHandshake:
    """A node's side of one handshake: `prove` answers the hello, `accept` reads the head's answer to the proof."""

    node: str
    head: str
    token: bytes
    plan: str
    nonce: bytes

    def prove(self, hello: bytes) -> bytes:
        """Return the proof for the head. Raises RefusedError if the head's supervisor has another version or name."""
        claim = self._claim(hello)
        proof = _hex_mac(self.token, claim.text(_TO_HEAD)).decode()
        said = {"version": VERSION, "node": self.node, "plan": self.plan, "nonce": self.nonce.hex(), "proof": proof}
        return _dump(said) + b"\n"

    def accept(self, hello: bytes, line: bytes) -> Channel:
        """Return the channel. Raises RefusedError if the head refuses this node, or is not the cluster's head."""
        claim, said = self._claim(hello), _handshake_line(line)
        if "refused" in said:
            raise RefusedError(_text(said, "refused"), _text(said, "words"))
        if not hmac.compare_digest(_text(said, "proof").encode(), _hex_mac(self.token, claim.text(_TO_NODE))):
            raise RefusedError("token", _other_token(self.node, self.head))
        return claim.channel(self.token, _TO_HEAD, _TO_NODE)

    def _claim(self, hello: bytes) -> _Claim:
        said = _handshake_line(hello)
        if said.get("version") != VERSION:
            raise RefusedError("version", _other_version(self.head, said.get("version"), self.node))
        if said.get("head") != self.head:
            words = (
                f"the supervisor that answers is the head {said.get('head')!r}, {self.node} belongs to {self.head}: "
            )
            raise RefusedError("plan", words + "run playbooks/serve.yml on all nodes with the same inventory")
        return _Claim(self.head, self.node, self.plan, _nonce(said), self.nonce)


@dataclass(frozen=True)
class _Claim:
    """Everything both sides must agree on; the proofs and the connection's key cover all of it."""

    head: str
    node: str
    plan: str
    head_nonce: bytes
    node_nonce: bytes

    def text(self, purpose: bytes) -> bytes:
        names = [self.head, self.node, self.plan, self.head_nonce.hex(), self.node_nonce.hex()]
        return b"firstlight supervisor %d, %s: " % (VERSION, purpose) + json.dumps(names).encode()

    def channel(self, token: bytes, outgoing: bytes, incoming: bytes) -> Channel:
        return Channel(_mac(token, self.text(b"key of the connection")), outgoing, incoming)


def _refuse(node: str, kind: str, words: str) -> Answer:
    return Answer(_dump({"refused": kind, "words": words}) + b"\n", node, refusal=RefusedError(kind, words))


def _other_version(other: str, found: Any, here: str) -> str:
    return (
        f"the supervisor of {other} speaks version {found!r}, that of {here} version {VERSION}: "
        "run playbooks/serve.yml on all nodes, so that all have the same supervisor"
    )


def _other_token(node: str, head: str) -> str:
    return (
        f"the token of {node} does not match the one on {head}: run playbooks/serve.yml, which copies it from "
        f"{head} to {node}"
    )


def _other_plan(node: str, found: str, head: str, expected: str) -> str:
    return (
        f"{node} was set up with a different plan ({found[:12]}) than {head} ({expected[:12]}): "
        "run playbooks/serve.yml on all nodes with the same inventory"
    )


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


def _hex_mac(key: bytes, text: bytes) -> bytes:
    return _mac(key, text).hex().encode()


def _dump(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _load(text: bytes) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        words = "received a line that is not JSON: the other side is not a supervisor of this version"
        raise WireError(words) from error
    if not isinstance(data, dict):
        raise WireError("received a line that is not a JSON object: the other side is not a supervisor of this version")
    return data


def _handshake_line(line: bytes) -> dict[str, Any]:
    if len(line) > HANDSHAKE_LIMIT:
        raise WireError(f"received a first line of {len(line)} bytes, at most {HANDSHAKE_LIMIT} are allowed")
    return _load(line)


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise WireError(f"the handshake lacks {key}: the other side is not a supervisor of this version")
    return value


def _nonce(said: Mapping[str, Any]) -> bytes:
    try:
        nonce = bytes.fromhex(_text(said, "nonce"))
    except ValueError as error:
        raise WireError("the handshake's nonce is not hexadecimal") from error
    if len(nonce) != NONCE_BYTES:
        raise WireError(f"the handshake's nonce has {len(nonce)} bytes, expected {NONCE_BYTES}")
    return nonce
