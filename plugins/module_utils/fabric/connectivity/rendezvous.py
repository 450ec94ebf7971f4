# SPDX-License-Identifier: Apache-2.0
"""How two hosts meet for a test, over the fabric itself and nothing else.

Every host listens on its fabric addresses and reports its current round when asked. In a round the first host of a pair
calls the other; whichever arrives first waits as long as the other is alive and not past the round. No clocks need to
be synchronised, and a host that is gone costs its partner a few seconds without upsetting anybody's order of rounds.

Messages are lines of JSON of at most 2 KiB that carry the run's id; messages from an address that is not in the plan,
or with another id, are not answered.

An interrupted controller leaves its hosts running. So a new run notifies an earlier run that it finds listening on the
same host, which then ends; and a host that is the last one left of its run stops waiting for the others.
"""

from __future__ import annotations

import contextlib
import errno
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LINE_MOST = 2048
CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 3.0
SILENT_SECONDS = 4.0
"""Seconds that a partner which should have started by now may stay silent."""
PAUSE_SECONDS = 0.05
ASK_SECONDS = 1.0
TAKEN_SECONDS = 0.5
"""Seconds between two attempts to listen where another run still does."""
ALONE_SECONDS = 60.0
"""After this time without hearing from anybody, either the other hosts have finished or the run was interrupted."""

HERE, WAIT, PAST = "here", "wait", "past"
BEGIN = "begin"
"""Sent by a new run to an earlier one on the same host."""
TAKEN = "a connectivity test of an earlier run is still under way on this host: wait for it, or end it"


class MeetingEndedError(Exception):
    """A partner did not come, or left before the test was over; the message says how."""


class OtherRunError(MeetingEndedError):
    """The peer belongs to another run."""

    def __init__(self, word: object) -> None:
        super().__init__("the partner belongs to another run")
        self.word = word


class EndedTestError(Exception):
    """This host's whole part has ended early; the message says why."""


class Session:
    """Two hosts in one test, exchanging messages in turn, each with a time limit."""

    def __init__(self, link: socket.socket, run: str, heard: Callable[[], None] = lambda: None) -> None:
        self._link = link
        self._run = run
        self._heard = heard
        self._held = b""

    def send(self, **words: Any) -> None:
        """Send a message to the partner. Raises MeetingEndedError if it is gone."""
        try:
            self._link.settimeout(ANSWER_SECONDS)
            self._link.sendall(_line({"run": self._run, **words}))
        except OSError as error:
            raise MeetingEndedError(f"the connection broke: {error}") from error

    def receive(self, seconds: float) -> dict[str, Any]:
        """Return the partner's next message. Raises MeetingEndedError if none arrives in time."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._held:
            left = deadline - time.monotonic()
            if left <= 0 or len(self._held) > LINE_MOST:
                raise MeetingEndedError(f"the partner sent nothing within {seconds:g} s")
            try:
                self._link.settimeout(left)
                more = self._link.recv(LINE_MOST)
            except TimeoutError:
                continue
            except OSError as error:
                raise MeetingEndedError(f"the connection broke: {error}") from error
            if not more:
                raise MeetingEndedError("the partner closed the connection")
            self._held += more
        line, _, self._held = self._held.partition(b"\n")
        words = _words(line)
        if words.get("run") != self._run:
            raise OtherRunError(words.get("word"))
        self._heard()
        return words

    def close(self) -> None:
        """Close the connection."""
        self._link.close()


class Meetings:
    """This host's listeners, and its connections to other hosts."""

    def __init__(
        self, run: str, host: str, addresses: Sequence[str], port: int, known: Mapping[str, Sequence[str]], start: float
    ) -> None:
        self._run, self._host, self._port = run, host, port
        self._addresses = list(addresses)
        self._known = {name: list(listed) for name, listed in known.items()}
        self._lock = threading.Lock()
        self._round = -1
        self._awaited: str | None = None
        self._came: queue.Queue[socket.socket] = queue.Queue()
        self._listeners: list[socket.socket] = []
        self._over = threading.Event()
        self._last_heard = time.monotonic()
        self._expected_until = self._last_heard + start
        self._alone = self._replaced = False
        self.problem = "this host has no fabric address"

    def listen(self) -> None:
        """Listen on every rail address of this host; `problem` says why if none can be listened on."""
        for address in filter(None, self._addresses):
            try:
                listener = self._place(address)
            except OSError as error:
                reason = TAKEN if error.errno == errno.EADDRINUSE else error.strerror or error
                self.problem = f"cannot listen at {address}:{self._port}: {reason}"
                continue
            listener.settimeout(0.2)
            self._listeners.append(listener)
            threading.Thread(target=self._listen, args=(listener,), daemon=True).start()
        if self._listeners:
            self.problem = ""

    def _place(self, address: str) -> socket.socket:
        """Listen on an address; an earlier run that still holds it is told to end, and waited for."""
        while True:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address, self._port))
                listener.listen(64)
            except OSError as error:
                listener.close()
                if error.errno != errno.EADDRINUSE or time.monotonic() > self._expected_until:
                    raise
            else:
                return listener
            self._say_that_it_begins(address)
            time.sleep(TAKEN_SECONDS)

    def _say_that_it_begins(self, address: str) -> None:
        with contextlib.suppress(OSError, MeetingEndedError):
            link = socket.create_connection((address, self._port), CONNECT_SECONDS, (address, 0))
            with contextlib.closing(Session(link, self._run)) as session:
                session.send(word=BEGIN, host=self._host)

    def close(self) -> None:
        """Stop listening."""
        self._over.set()
        for listener in self._listeners:
            listener.close()

    def enter(self, number: int) -> None:
        """Begin a round; partners that still ask for an earlier one are told that it is past.

        Raises EndedTestError if another run began on this host.
        """
        self._refuse_to_go_on()
        with self._lock:
            self._round, self._awaited = number, None

    def call(self, peer: str, deadline: float) -> Session:
        """Connect to a partner and wait there until it has reached this round.

        Raises MeetingEndedError if it does not.
        """
        self._refuse_alone(peer)
        alive = 0.0
        while True:
            answer, session, said = self._dial(peer, "meet")
            if session is not None:
                return session
            alive = self._still_expected(peer, answer, said, alive, deadline)
            time.sleep(PAUSE_SECONDS)

    def await_call(self, peer: str, deadline: float) -> Session:
        """Wait for a partner to connect, and ask now and then whether it is still to come.

        Raises MeetingEndedError if it does not.
        """
        self._refuse_alone(peer)
        with self._lock:
            self._awaited = peer
        alive = 0.0
        try:
            while True:
                with contextlib.suppress(queue.Empty):
                    return self._session(self._came.get(timeout=ASK_SECONDS))
                answer, _, said = self._dial(peer, "ask")
                # It may have connected at the very moment it was asked.
                with contextlib.suppress(queue.Empty):
                    return self._session(self._came.get_nowait())
                alive = self._still_expected(peer, answer, said, alive, deadline)
        finally:
            with self._lock:
                self._awaited = None

    def _still_expected(self, peer: str, answer: str | None, said: str, alive: float, deadline: float) -> float:
        """Return when the partner was last known to be alive. Raises MeetingEndedError if it is no longer expected."""
        self._refuse_to_go_on()
        now = time.monotonic()
        if answer == PAST:
            raise MeetingEndedError(f"{peer} had continued without this host")
        if answer == WAIT:
            alive = now
        if now > deadline:
            raise MeetingEndedError(f"{peer} did not connect in time")
        if answer is None and now > max(alive + SILENT_SECONDS, self._expected_until):
            self._look_for_anybody(now)
            raise MeetingEndedError(f"{peer} did not connect: {said}")
        return alive

    def _look_for_anybody(self, now: float) -> None:
        """After a long silence query all other hosts once; if none answers, this host is the last one of its run."""
        if now > self._last_heard + ALONE_SECONDS:
            others = [name for name in self._known if name != self._host]
            self._alone = not any(self._dial(other, "ask")[0] for other in others)

    def _refuse_alone(self, peer: str) -> None:
        if self._alone:
            raise MeetingEndedError(f"{peer} did not connect: nobody listens, no other host of this run is left")

    def _refuse_to_go_on(self) -> None:
        if self._replaced:
            raise EndedTestError("another connectivity test started on this host")

    def _session(self, link: socket.socket) -> Session:
        return Session(link, self._run, self._hear)

    def _hear(self) -> None:
        self._last_heard = time.monotonic()

    def _dial(self, peer: str, word: str) -> tuple[str | None, Session | None, str]:
        """Query a partner over each rail in turn; return its answer, the session if it is there, and the error if any.

        The session that read the answer must be used from then on: it may already have buffered the partner's next
        message.
        """
        said = "it has no fabric address"
        for own, address in zip(self._addresses, self._known.get(peer, ()), strict=False):
            try:
                link = socket.create_connection((address, self._port), CONNECT_SECONDS, (own, 0))
            except OSError as error:
                said = f"nobody listens at {address}:{self._port} ({error.strerror or error})"
                continue
            try:
                session = self._session(link)
                session.send(word=word, host=self._host, round=self._round)
                answer = str(session.receive(ANSWER_SECONDS).get("answer"))
            except MeetingEndedError as error:
                link.close()
                said = f"no answer from {address}:{self._port} ({error})"
                continue
            if answer == HERE:
                return answer, session, ""
            link.close()
            return answer, None, ""
        return None, None, said

    def _listen(self, listener: socket.socket) -> None:
        while not self._over.is_set():
            try:
                link, (address, _) = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            # One thread each: a client that connects and sends nothing must not block the others.
            threading.Thread(target=self._answer, args=(link, address), daemon=True).start()

    def _answer(self, link: socket.socket, address: str) -> None:
        kept = False
        try:
            session = self._session(link)
            words = session.receive(ANSWER_SECONDS)
            peer = str(words.get("host"))
            if address not in self._known.get(peer, ()) or not isinstance(words.get("round"), int):
                return
            with self._lock:
                answer = WAIT if words["round"] >= self._round else PAST
                if words.get("word") == "meet" and words["round"] == self._round and self._awaited == peer:
                    answer, self._awaited = HERE, None
            try:
                session.send(answer=answer)
            except MeetingEndedError:
                with self._lock:
                    self._awaited = peer if answer == HERE and words["round"] == self._round else self._awaited
                return
            if answer == HERE:
                kept = True
                self._came.put(link)
        except OtherRunError as other:
            # Only from this host itself: hosts of an interrupted run go on asking for a while and must not end a new
            # one.
            if other.word == BEGIN and address in self._addresses:
                self._replaced = True
        except MeetingEndedError:
            return
        finally:
            if not kept:
                link.close()


def _line(words: Mapping[str, Any]) -> bytes:
    return json.dumps(words, separators=(",", ":")).encode() + b"\n"


def _words(line: bytes) -> dict[str, Any]:
    try:
        words = json.loads(line)
    except ValueError:
        return {}
    return words if isinstance(words, dict) else {}
