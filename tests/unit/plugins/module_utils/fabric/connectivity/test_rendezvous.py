# SPDX-License-Identifier: Apache-2.0
"""Hosts that meet over real sockets, each on a loopback address of its own."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity import rendezvous
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.rendezvous import (
    EndedTestError,
    MeetingEndedError,
    Meetings,
    Session,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.rounds import partners, rounds

pytestmark = pytest.mark.slow  # hosts that wait for each other

HOSTS = {"spark0": ["127.0.0.10"], "spark1": ["127.0.0.11"], "spark2": ["127.0.0.12"], "spark3": ["127.0.0.13"]}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(rendezvous, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(rendezvous, "ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(rendezvous, "TAKEN_SECONDS", 0.05)


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.10", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def at(host: str, port: int, run: str = "7", start: float = 0.5) -> Iterator[Meetings]:
    with contextlib.closing(Meetings(run, host, HOSTS[host], port, HOSTS, start)) as meetings:
        meetings.listen()
        yield meetings


# Whoever is given up is given up for its silence, not because the whole test was late.
NEVER = math.inf


def test_all_hosts_go_through_all_rounds_and_nobody_is_in_two_tests(port: int) -> None:
    names, busy, log, lock = list(HOSTS), set[str](), list[frozenset[str]](), threading.Lock()
    problems: list[BaseException] = []
    both_pairs, all_hosts = threading.Barrier(2, timeout=60), threading.Barrier(len(names), timeout=60)

    def take_part(host: str) -> None:
        try:
            with at(host, port, start=60) as meetings:
                for number, partner in enumerate(partners(host, rounds(names))):
                    assert partner is not None
                    meetings.enter(number)
                    first = names.index(host) < names.index(partner)
                    session = (meetings.call if first else meetings.await_call)(partner, NEVER)
                    with contextlib.closing(session):
                        if first:
                            with lock:
                                assert not busy & {host, partner}
                                busy.update({host, partner})
                                log.append(frozenset({host, partner}))
                            both_pairs.wait()
                            with lock:
                                busy.difference_update({host, partner})
                            session.send(over=True)
                            assert session.receive(60)["over"]
                        else:
                            assert session.receive(60)["over"]
                            session.send(over=True)
                meetings.enter(len(names))
                all_hosts.wait()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            problems.append(error)

    threads = [threading.Thread(target=take_part, args=(host,)) for host in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(log) == len(set(log)) == 6


def test_a_partner_that_never_starts_is_given_up(port: int) -> None:
    with at("spark0", port) as meetings:
        meetings.enter(0)
        with pytest.raises(MeetingEndedError, match=r"spark1 did not connect: nobody listens at 127\.0\.0\.11"):
            meetings.call("spark1", NEVER)
        with pytest.raises(MeetingEndedError, match="spark2 did not connect"):
            meetings.await_call("spark2", NEVER)


def test_a_partner_that_is_alive_is_waited_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "SILENT_SECONDS", -1.0)  # a partner that once gives no answer is given up
    with at("spark0", port, start=0) as one, at("spark1", port) as other:
        answers: list[str | None] = []
        asked_often = threading.Event()

        def dial(peer: str, word: str) -> tuple[str | None, Session | None, str]:
            told = Meetings._dial(one, peer, word)
            answers.append(told[0])
            if len(answers) == 5:
                asked_often.set()
            return told

        monkeypatch.setattr(one, "_dial", dial)
        one.enter(1)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(one.call("spark1", NEVER)))
        thread.start()
        assert asked_often.wait(60)
        assert answers[:5] == ["wait"] * 5
        other.enter(1)
        with contextlib.closing(other.await_call("spark0", NEVER)):
            thread.join()
        assert len(found) == 1
        found[0].close()


def test_a_partner_that_is_past_the_round_is_not_waited_for(port: int) -> None:
    with at("spark0", port, start=60) as one, at("spark1", port) as other:
        one.enter(2)
        other.enter(5)
        with pytest.raises(MeetingEndedError, match="spark1 had continued"):
            one.call("spark1", NEVER)
        with pytest.raises(MeetingEndedError, match="spark1 had continued"):
            one.await_call("spark1", NEVER)


def test_nobody_of_another_run_and_no_stranger_is_answered(port: int) -> None:
    with at("spark0", port) as one, at("spark1", port, run="8") as other:
        one.enter(0)
        other.enter(0)
        with pytest.raises(MeetingEndedError, match="did not connect"):
            other.call("spark0", NEVER)
        for line in (b'{"run":"7","host":"spark1","round":0,"word":"meet"}\n', b"\xff\xfe\n", b"x" * 5000):
            with socket.create_connection(("127.0.0.10", port), 2, ("127.0.0.99", 0)) as stranger:
                stranger.settimeout(60)
                with contextlib.suppress(OSError):
                    stranger.sendall(line)
                    assert stranger.recv(100) == b""


def test_a_host_listens_on_its_fabric_addresses_only(port: int) -> None:
    with at("spark0", port), pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), 1)


def test_a_host_without_its_address_says_so(port: int) -> None:
    with contextlib.closing(Meetings("7", "spark0", ["192.0.2.1"], port, HOSTS, 1)) as meetings:
        meetings.listen()
        assert "cannot listen at 192.0.2.1" in meetings.problem


def test_a_partner_that_leaves_ends_the_meeting(port: int) -> None:
    with at("spark0", port) as one, at("spark1", port) as other:
        one.enter(0)
        other.enter(0)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(other.await_call("spark0", NEVER)))
        thread.start()
        with contextlib.closing(one.call("spark1", NEVER)) as session:
            thread.join(60)
            with pytest.raises(MeetingEndedError, match=r"within 0\.1 s"):
                session.receive(0.1)
            found[0].close()
            with pytest.raises(MeetingEndedError, match="closed the connection"):
                session.receive(60)


def test_what_a_partner_says_right_after_its_answer_is_not_lost(port: int) -> None:
    """Its next line may come in the same packet."""
    with at("spark0", port) as one, socket.create_server(("127.0.0.11", port)) as partner:
        one.enter(0)

        def answer() -> None:
            link, _ = partner.accept()
            with link:
                link.recv(1000)
                link.sendall(b'{"run":"7","answer":"here"}\n{"run":"7","rails":[1]}\n')
                link.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        with contextlib.closing(one.call("spark1", NEVER)) as session:
            assert session.receive(60)["rails"] == [1]
        thread.join(60)


def test_a_run_that_begins_ends_the_one_before_it(port: int) -> None:
    """The controller was interrupted, and its hosts went on waiting for each other."""
    ended: list[str] = []

    def interrupted() -> None:
        with at("spark0", port, run="6", start=60) as former:
            former.enter(0)
            listening.set()
            try:
                former.call("spark1", NEVER)
            except EndedTestError as error:
                ended.append(str(error))

    listening = threading.Event()
    thread = threading.Thread(target=interrupted)
    thread.start()
    listening.wait(60)
    with at("spark0", port, start=60) as one, at("spark1", port) as other:
        thread.join(60)
        assert ended == ["another connectivity test started on this host"]
        assert one.problem == ""
        one.enter(0)
        other.enter(0)
        found: list[Any] = []
        partner = threading.Thread(target=lambda: found.append(other.await_call("spark0", NEVER)))
        partner.start()
        one.call("spark1", NEVER).close()
        partner.join(60)
        found[0].close()


def test_hosts_of_an_earlier_run_do_not_end_a_new_one(port: int) -> None:
    with at("spark0", port) as one:
        for source, word in (("127.0.0.11", "meet"), ("127.0.0.11", "begin"), ("127.0.0.10", "ask")):
            with socket.create_connection(("127.0.0.10", port), 2, (source, 0)) as former:
                former.sendall(f'{{"run":"6","host":"spark1","round":0,"word":"{word}"}}\n'.encode())
                former.settimeout(60)
                assert former.recv(100) == b""
        one.enter(1)


def test_a_place_that_stays_taken_is_said(port: int) -> None:
    with socket.create_server(("127.0.0.10", port)), at("spark0", port, start=0.2) as meetings:
        assert meetings.problem == (
            f"cannot listen at 127.0.0.10:{port}: a connectivity test of an earlier run is still under way on this "
            "host: wait for it, or end it"
        )


def test_the_last_host_of_a_run_waits_for_nobody(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "ALONE_SECONDS", 0.2)
    with at("spark0", port, start=0.3) as meetings:
        meetings.enter(0)
        with pytest.raises(MeetingEndedError, match=r"spark1 did not connect: nobody listens at 127\.0\.0\.11"):
            meetings.call("spark1", NEVER)
        monkeypatch.setattr(meetings, "_dial", lambda *_: pytest.fail("nobody is asked any more"))
        for wait in (meetings.call, meetings.await_call):
            with pytest.raises(MeetingEndedError, match="no other host of this run is left"):
                wait("spark2", NEVER)


def test_a_host_that_hears_of_anybody_is_not_the_last(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "ALONE_SECONDS", 0.2)
    with at("spark0", port, start=0.3) as meetings, at("spark2", port) as other:
        meetings.enter(0)
        other.enter(0)
        with pytest.raises(MeetingEndedError, match="spark1 did not connect"):
            meetings.call("spark1", NEVER)
        with pytest.raises(MeetingEndedError, match="did not connect in time"):
            meetings.call("spark2", time.monotonic() + 0.3)
