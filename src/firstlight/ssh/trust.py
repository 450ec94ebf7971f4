# SPDX-License-Identifier: Apache-2.0
"""Trusted host keys, kept in the known_hosts file of an inventory."""

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
    """The pinned keys of a file, and keys the operator vouched for; `new` holds those trusted during this run."""

    path: Path
    listed: Mapping[str, str] = field(default_factory=dict)
    accepted: Sequence[str] = ()
    keep: bool = True
    new: dict[str, HostKey] = field(default_factory=dict)
    replaces: Collection[str] = ()
    """Nodes whose machine was replaced: their new key counts as unknown, and only `replace` pins it."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def _text(self) -> str:
        return self.path.read_text(encoding="utf-8") if self.path.exists() else ""

    def known(self, target: Target, port: int) -> list[HostKey]:
        """Return the keys pinned for a node, by its address or its name."""
        found = pins(self._text())
        return [*found.get(place(target.address, port), []), *found.get(place(target.name, port), [])]

    def evaluate(self, target: Target, port: int, key: HostKey) -> str | Fault:
        known = self.known(target, port)
        if target.name in self.replaces and key not in known:
            # The key trusted first in this run identifies the machine; a further one is from somebody else.
            seen = self.new.get(target.name)
            return evaluate(key, [seen] if seen and seen != key else [], self.listed, target.names, self.accepted)
        return evaluate(key, known, self.listed, target.names, self.accepted)

    def waits(self, target: Target, port: int) -> bool:
        """Return whether a trusted key is still to be pinned, once the machine is confirmed as the replacement."""
        key = self.new.get(target.name)
        known = self.known(target, port)
        return target.name in self.replaces and key is not None and bool(known) and key not in known

    def replace(self, target: Target, port: int) -> None:
        """Pin the new machine's key instead of the old one's, for exactly this node."""
        self._write(target, port, self.new[target.name], instead=True)

    def pin(self, target: Target, port: int, key: HostKey) -> None:
        """Pin the key. Raises NodeError if another one was pinned since this one was checked."""
        self._write(target, port, key, instead=False)

    def _write(self, target: Target, port: int, key: HostKey, *, instead: bool) -> None:
        """Replace the file atomically, for the sake of concurrent readers."""
        names = place(target.name, port), place(target.address, port)
        if not instead and with_pin(before := self._text(), *names, key) == before:
            return  # nothing to write: the file may be read-only for this user
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
        """Hold an exclusive lock on the file, against other threads of this command and other commands."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, contextlib.ExitStack() as opened:
            while True:
                file = opened.enter_context(open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "rb"))
                fcntl.flock(file, fcntl.LOCK_EX)
                # The previous holder may have replaced the file while we waited for the lock.
                if os.path.samestat(os.fstat(file.fileno()), os.stat(self.path)):
                    break
            yield

    def open(self, target: Target, port: int) -> Session:
        """Open a connection to a node with a trusted key. Raises NodeError before anything but the key exchange is
        sent.
        """
        session = Session.open(target.address, port, [key.kind for key in self.known(target, port)])
        verdict = self.evaluate(target, port, session.host_key)
        if isinstance(verdict, Fault):
            session.close()
            raise NodeError(verdict)
        if verdict != PINNED:
            self.new[target.name] = session.host_key
        try:
            if self.keep and not self.waits(target, port):
                self.pin(target, port, session.host_key)  # also adds a name not yet known for a pinned address
        except BaseException:
            self.new.pop(target.name, None)
            session.close()
            raise
        return session
