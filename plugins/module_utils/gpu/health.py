# SPDX-License-Identifier: Apache-2.0
"""The GPUs of a host as a state: what a profile requires of them, and every check with its verdict.

A host's GPUs are evaluated on the host, against its profile, and only the checks leave it: they are small, and nobody
can evaluate them differently later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..state.vocabulary import Difference, Peers, difference, register
from ..verdicts import CONTENT, COULD_NOT_CHECK, FAIL, NOT_APPLICABLE, PASS
from .check import Check, make_check, merged
from .expected import Expected, expected_of

KIND = "gpu_health"
"""The kind's name in the state vocabulary."""
CHECK = "gpu_check"
"""The kind of a difference that comes from one check."""

ANSWER = "gpu.answer"
PROCESSES = "gpu.processes"
STACK_CHECKS = frozenset({"driver.version", "driver.flavour"})
"""Checks of what a stack pins: another driver is not a fault of the GPUs, and is fixed by applying the stack."""

COMING = frozenset({"fabric_manager.service", "fabric_manager.state", "nvlink.links", "nvlink.speed", "topo.pairs"})
"""Checks that may fail for a moment after boot, until the fabric manager has connected the GPUs."""

REMEDY_SILENT = "look for Xid 119 and processes in state D (`dmesg`, `ps`), take the host out of service and reboot it"


def expected_by(want: Mapping[str, Any]) -> Expected:
    """The expectations of the profile in a desired state. Raises ValueError if it is not a profile."""
    hardware = want.get("hardware") or {}
    lacking = [field for field in ("gpus", "gpu_name") if not hardware.get(field)]
    if lacking:
        raise ValueError(
            f"the hardware has no {' and no '.join(lacking)}, expected an entry of catalog/hardware: "
            "name the profile, or set these fields"
        )
    return expected_of(str(want.get("profile") or "unnamed"), hardware, want.get("driver") or None)


def host_checks(found: Iterable[Check], silent: Iterable[str] = (), *, serving: bool = False) -> list[Check]:
    """Merge to one check per id. `silent` lists the commands that timed out; `serving`: our own processes run here."""
    listed = list(found)
    listed += [make_check(ANSWER, FAIL, "an answer in time", one, REMEDY_SILENT, source=one) for one in silent]
    if serving:
        listed = [_not_evaluated(one) if one["id"] == PROCESSES else one for one in listed]
    return merged(listed)


def _not_evaluated(one: Check) -> Check:
    return {
        **one,
        "verdict": NOT_APPLICABLE,
        "observed": "not evaluated while the cluster serves here",
        "remedy": "",
        "command": None,
    }


def not_right(want: Mapping[str, Any], seen: Mapping[str, Any] | None) -> list[Check]:
    """The checks that are neither satisfied nor accepted, including one for an observation that decided nothing."""
    return [one for one in evaluated_checks(want, seen) if one["verdict"] not in CONTENT]


def evaluated_checks(want: Mapping[str, Any], seen: Mapping[str, Any] | None) -> list[Check]:
    """All checks, with those that the operator accepts marked as such."""
    if not want:
        return []
    checks = list((seen or {}).get("checks") or ())
    if not any(one["verdict"] in (PASS, FAIL) for one in checks):
        why = "it was not checked" if seen is None else seen.get("error") or "no tool reported any GPU"
        checks.append(_unseen(str(why)))
    return as_accepted(checks, want.get("accept") or ())


def as_accepted(checks: Iterable[Check], names: Iterable[object]) -> list[Check]:
    """The checks, with unsatisfied ones that have one of these ids marked as accepted."""
    accepted = {str(name) for name in names}
    return [_accepted(one) if one["id"] in accepted and one["verdict"] not in CONTENT else one for one in checks]


def _unseen(why: str) -> Check:
    return make_check(ANSWER, COULD_NOT_CHECK, "an answer", why, "run `nvidia-smi` on the host and read its output")


def _accepted(one: Check) -> Check:
    return {**one, "verdict": NOT_APPLICABLE, "observed": f"accepted by gpu_verify_accept: {one['observed']}"}


def is_coming(not_content: Iterable[str]) -> bool:
    """Whether all unsatisfied checks, given by id, may still pass by themselves."""
    listed = set(not_content)
    return bool(listed) and listed <= COMING


def _differences(desired: Mapping[str, Any], observed: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    """One difference per unsatisfied check; the remedy is part of the observed value."""
    fields = ("verdict", "observed", "remedy", "command")
    return [
        difference(CHECK, str(one["id"]), one["expected"], {field: one.get(field) for field in fields})
        for one in not_right(desired, observed.get(KIND))
    ]


def sentence(key: str, expected: Any, observed: Any) -> str:
    """A sentence for people about an unsatisfied check; the remedy is part of the observed value."""
    seen = observed if isinstance(observed, Mapping) else {"observed": observed}
    verb = "could not be checked" if seen.get("verdict") == COULD_NOT_CHECK else "fails"
    remedy = f"; {seen['remedy']}" if seen.get("remedy") else ""
    command = f" (`{seen['command']}`)" if seen.get("command") else ""
    return f"{key} {verb}: {seen.get('observed')}, expected {expected}{remedy}{command}"


register(compared={KIND: _differences}, sentences={CHECK: sentence})
