# SPDX-License-Identifier: Apache-2.0
"""The actions of the module `repin` on a host, one function each.

Each action may be interrupted at any point and repeated: it looks at the current state, does the rest, and adds its
entry to the journal last. Only a reboot is recorded before it happens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ..driver.driver_probe import boot_blockers
from . import journal as book
from .begin import begin, read
from .fetch import fetch
from .install import install, settle, stage
from .journal import BACK, FORWARD, JournalError
from .machine import Answer, Machine, open_journal
from .service import drain, uncordon

NOTED = (book.BOOTED, book.VERIFIED, book.FAILED, book.ROLLED_BACK)


def perform(machine: Machine, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Run the action that the parameters name; raises one of PROBLEMS."""
    actions: dict[str, Callable[[Machine, Mapping[str, Any]], Answer]] = {
        "begin": begin,
        "fetch": fetch,
        "drain": drain,
        "stage": stage,
        "install": install,
        "settle": settle,
        "request_reboot": request_reboot,
        "note": note,
        "uncordon": uncordon,
        "close": close,
    }
    if parameters["action"] == "read":
        return read(machine, parameters).result()
    if machine.check_mode:
        return actions[parameters["action"]](machine, parameters).result()
    with machine.journals.locked(machine.lock_timeout):
        return actions[parameters["action"]](machine, parameters).result()


def request_reboot(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Record the reboot, then schedule it for a moment later, so that the response still gets out."""
    journal = open_journal(machine)
    way = str(parameters.get("direction") or FORWARD)
    boot = machine.journals.boot_id()
    latest = book.last(journal) or {}
    again = book.place(journal) == (way, book.REBOOT_REQUESTED)
    if again and latest["boot_id"] != boot:
        return Answer(journal, more={"boot_id": boot})
    book.check(journal, book.REBOOT_REQUESTED, way)
    if not again:
        refusal = book.reboot_refusal(machine.journals.reboots(journal), journal["max_reboots"], way)
        if refusal:
            raise JournalError(refusal)
    blockers = boot_blockers(machine.host, 60, machine.root)
    if blockers:
        raise JournalError(f"The host is not rebooted: {'; '.join(blockers)}")
    if machine.check_mode:
        return Answer(journal, changed=True, more={"boot_id": boot})
    journal = machine.journals.add(journal, book.REBOOT_REQUESTED, way)
    os.sync()
    soon = ["systemd-run", "--on-active=2", "--timer-property=AccuracySec=100ms", "systemctl", "reboot"]
    result = machine.host.run(soon, 30)
    if not result.ok:
        later = machine.host.run(["shutdown", "--reboot", "+1"], 30)
        if not later.ok:
            raise JournalError(f"The host cannot be rebooted: {result.summary}; {later.summary}. Reboot it by hand")
    return Answer(journal, changed=True, more={"boot_id": boot})


def note(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Add an entry that only the controller can decide on."""
    journal = open_journal(machine)
    state = str(parameters.get("state"))
    way = str(parameters.get("direction") or book.direction(journal) or FORWARD)
    if state not in NOTED:
        raise JournalError(
            f"{state} cannot be noted, it is done by the action of that name; states to note: {', '.join(NOTED)}"
        )
    latest = book.last(journal) or {}
    if book.place(journal) == (way, state) and (state != book.FAILED or latest["detail"] == parameters.get("detail")):
        return Answer(journal)
    book.check(journal, state, way)
    if state == book.BOOTED and latest["boot_id"] == machine.journals.boot_id():
        raise JournalError("The host has not booted since the reboot was requested: wait for it")
    if machine.check_mode:
        return Answer(journal, changed=True)
    return Answer(machine.journals.add(journal, state, way, parameters.get("detail")), changed=True)


def close(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Move a finished journal to the closed ones."""
    journal = machine.journals.read()
    if journal is None:
        return Answer(None, more={"closed": ""})
    where, untouched = book.place(journal), journal.get("drain") is None
    ended = book.state(journal) == book.UNCORDONED or (where == (BACK, book.ROLLED_BACK) and untouched)
    given_up = where == (FORWARD, book.PLANNED) and untouched
    if not ended and not given_up:
        raise JournalError(f"{book.how_to_finish(journal)}. A journal is closed only when its move has ended")
    if machine.check_mode:
        return Answer(journal, changed=True, more={"closed": ""})
    if given_up:
        reason = (parameters.get("detail") or {}).get("reason") or "given up before anything was changed"
        journal = machine.journals.add(journal, book.FAILED, FORWARD, {"at": book.PLANNED, "reason": reason})
        journal = machine.journals.add(journal, book.ROLLED_BACK, BACK)
    closed = machine.journals.close(journal)
    return Answer(journal, changed=True, more={"closed": closed})
