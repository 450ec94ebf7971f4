# SPDX-License-Identifier: Apache-2.0
"""Which host keys are trusted, kept in the known_hosts file of an inventory."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .faults import Fault, NodeError
from .host_keys import PINNED, HostKey, judge, pins, place, with_pin, without_pins
from .session import Session
from .targets import Target


@dataclass
class Trust:
    """The pinned keys of a file, and what the operator said of others; `new` are those that were trusted just now."""

    path: Path
    listed: Mapping[str, str] = field(default_factory=dict)
    accepted: Sequence[str] = ()
    keep: bool = True
    new: dict[str, HostKey] = field(default_factory=dict)
    replaces: Collection[str] = ()
    """Nodes whose machine was replaced: a new key counts as one that nobody knows, and only `replace` pins it."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def _text(self) -> str:
        return self.path.read_text(encoding="utf-8") if self.path.exists() else ""

    def known(self, target: Target, port: int) -> list[HostKey]:
        """The keys that are pinned for a node, by its address or by its name."""
        found = pins(self._text())
        return [*found.get(place(target.address, port), []), *found.get(place(target.name, port), [])]

    def judge(self, target: Target, port: int, key: HostKey) -> str | Fault:
        known = self.known(target, port)
        if target.name in self.replaces and key not in known:
            # What was trusted once in this run is the machine; a third key is somebody else.
            seen = self.new.get(target.name)
            return judge(key, [seen] if seen and seen != key else [], self.listed, target.names, self.accepted)
        return judge(key, known, self.listed, target.names, self.accepted)

    def waits(self, target: Target, port: int) -> bool:
        """Whether a key was trusted that is pinned only once the machine is known to be the new one."""
        key = self.new.get(target.name)
        known = self.known(target, port)
        return target.name in self.replaces and key is not None and bool(known) and key not in known

    def replace(self, target: Target, port: int) -> None:
        """Pin the new machine's key in the place of the old one's, of exactly this node."""
        self._write(target, port, self.new[target.name], instead=True)

    def pin(self, target: Target, port: int, key: HostKey) -> None:
        """Write the key down, beside those that are pinned."""
        self._write(target, port, key, instead=False)

    def _write(self, target: Target, port: int, key: HostKey, *, instead: bool) -> None:
        """The file is replaced as a whole, whoever reads it meanwhile."""
        names = place(target.name, port), place(target.address, port)
        with self._lock:
            before = self._text()
            after = with_pin(without_pins(before, names) if instead else before, *names, key)
            if after == before:
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = self.path.with_name(self.path.name + ".new")
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(after)
            new.replace(self.path)

    def open(self, target: Target, port: int) -> Session:
        """A connection to a node whose key is trusted. Raises NodeError; nothing was sent then but the key exchange."""
        session = Session.open(target.address, port, [key.kind for key in self.known(target, port)])
        verdict = self.judge(target, port, session.host_key)
        if isinstance(verdict, Fault):
            session.close()
            raise NodeError(verdict)
        if verdict != PINNED:
            self.new[target.name] = session.host_key
        if self.keep and not self.waits(target, port):
            self.pin(target, port, session.host_key)  # also a name that was not known with a pinned address
        return session
