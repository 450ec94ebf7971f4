# SPDX-License-Identifier: Apache-2.0
"""Which host keys are trusted, kept in the known_hosts file of an inventory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.module_utils.host import write_file

from .faults import Fault, NodeError, key_changed
from .host_keys import PINNED, HostKey, evaluate, pins, place, with_pin, without_pins
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

    def evaluate(self, target: Target, port: int, key: HostKey) -> str | Fault:
        known = self.known(target, port)
        if target.name in self.replaces and key not in known:
            # What was trusted once in this run is the machine; a third key is somebody else.
            seen = self.new.get(target.name)
            return evaluate(key, [seen] if seen and seen != key else [], self.listed, target.names, self.accepted)
        return evaluate(key, known, self.listed, target.names, self.accepted)

    def waits(self, target: Target, port: int) -> bool:
        """Whether a key was trusted that is pinned only once the machine is known to be the new one."""
        key = self.new.get(target.name)
        known = self.known(target, port)
        return target.name in self.replaces and key is not None and bool(known) and key not in known

    def replace(self, target: Target, port: int) -> None:
        """Pin the new machine's key in the place of the old one's, of exactly this node."""
        self._write(target, port, self.new[target.name], instead=True)

    def pin(self, target: Target, port: int, key: HostKey) -> None:
        """Write the key down. Raises NodeError where another one was pinned since this one was checked."""
        self._write(target, port, key, instead=False)

    def _write(self, target: Target, port: int, key: HostKey, *, instead: bool) -> None:
        """The file is replaced as a whole, whoever reads it meanwhile."""
        names = place(target.name, port), place(target.address, port)
        if not instead and with_pin(before := self._text(), *names, key) == before:
            return  # it may be a file that this person can only read
        with self._alone():
            before = self._text()
            known = self.known(target, port)
            if known and key not in known and not instead:
                raise NodeError(key_changed(" or ".join(one.fingerprint for one in known), key.fingerprint))
            after = with_pin(without_pins(before, names) if instead else before, *names, key)
            if after != before:
                write_file(str(self.path), after, 0o600)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else writes the file: no thread of this command, and no other command."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, contextlib.ExitStack() as opened:
            while True:
                file = opened.enter_context(open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "rb"))
                fcntl.flock(file, fcntl.LOCK_EX)
                # Whoever had it before may have put another file in its place.
                if os.path.samestat(os.fstat(file.fileno()), os.stat(self.path)):
                    break
            yield

    def open(self, target: Target, port: int) -> Session:
        """A connection to a node whose key is trusted. Raises NodeError; nothing was sent then but the key exchange."""
        session = Session.open(target.address, port, [key.kind for key in self.known(target, port)])
        verdict = self.evaluate(target, port, session.host_key)
        if isinstance(verdict, Fault):
            session.close()
            raise NodeError(verdict)
        if verdict != PINNED:
            self.new[target.name] = session.host_key
        try:
            if self.keep and not self.waits(target, port):
                self.pin(target, port, session.host_key)  # also a name that was not known with a pinned address
        except BaseException:
            self.new.pop(target.name, None)
            session.close()
            raise
        return session
