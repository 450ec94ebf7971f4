# SPDX-License-Identifier: Apache-2.0
"""Decide what to do with each host of a re-pin, from its observation; nothing is decided on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import SERVING_UNITS
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu import health
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.stack_set import SET_ROLES

MOVE, BACK, DONE, LEAVE, REFUSE = "move", "back", "done", "leave", "refuse"
"""Move forward (or resume), roll back, nothing to do, leave alone because it is unhealthy, or stop the whole run."""


SERVING_ROLES = ("inference_image", "engine_venv", "ray_cluster", "inference_server")
"""Roles whose files depend on the stack's engine."""


@dataclass(frozen=True)
class Decision:
    """What to do with one host in a re-pin, and why."""

    action: str
    reasons: list[str] = field(default_factory=list)
    resumes: str | None = None
    """The journal state in which an earlier run stopped."""
    given_up: bool = False
    """Rolled back on request, by naming the stack it came from."""
    in_service: bool = True
    """Whether the host served, or was meant to, before any change."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Terms:
    """Further conditions of a decision, beside the observation of the host."""

    expected_gpus: int | None = None
    wanted_gpus: Mapping[str, Any] | None = None
    """The hardware profile by which the GPUs were evaluated, with the checks that the operator accepts."""
    held_back: Sequence[str] = ()
    """Roles of the stack that must not change what is installed, as for a factory driver."""
    obstacles: Sequence[str] = ()
    """Why the state of this host's driver or fabric forbids changes."""
    max_reboots: int = 4
    serves: bool = True
    """Whether the run starts serving again."""


def decide(
    stack: str,
    observation: Mapping[str, Any],
    reading: Mapping[str, Any],
    pending: Mapping[str, Sequence[Mapping[str, Any]]],
    terms: Terms,
) -> Decision:
    """Decide for one host.

    `reading` is the result of module repin, and `pending` has the host's differences from the new stack, by role.
    """
    in_service = serving_before(observation, reading)
    journal = reading.get("journal")
    if journal and not _is_over(journal):
        return replace(_resume(stack, journal), in_service=in_service)
    if not of_the_stack(pending, serves=terms.serves and in_service):
        found = Decision(DONE, [f"already on {stack}"])
    elif problems := unhealthy(observation, reading, terms.expected_gpus, terms.wanted_gpus):
        found = Decision(LEAVE, problems)
    elif reasons := [*_errors(stack, reading, pending, terms), *terms.obstacles]:
        found = Decision(REFUSE, reasons)
    else:
        found = Decision(MOVE)
    return replace(found, in_service=in_service)


def _errors(
    stack: str,
    reading: Mapping[str, Any],
    pending: Mapping[str, Sequence[Mapping[str, Any]]],
    terms: Terms,
) -> list[str]:
    """Return why a healthy host must not be moved, as texts that follow its name."""
    for role in terms.held_back:
        foreign = [one for one in pending.get(role, ()) if one["kind"] in ("package", "driver")]
        if foreign:
            return [_factory(one, stack) for one in foreign[:3]]
    spent = len(reading.get("reboots") or ())
    if spent + 2 > terms.max_reboots:
        reason = (
            f"rebooted {spent} times for a re-pin in the last 12 hours, and a move may need two more (there and back), "
            f"expected at most {terms.max_reboots}: find out why, wait, or raise repin_max_reboots"
        )
        return [reason]
    return []


def _is_over(journal: Mapping[str, Any]) -> bool:
    """Return whether the rollback was completed and only the journal was not closed."""
    states = [entry.get("state") for entry in journal.get("entries") or ()]
    return "failed" in states and states[-1] == "uncordoned"


def serving_before(observation: Mapping[str, Any], reading: Mapping[str, Any]) -> bool:
    """Return whether the host was in service: by its journal if it was drained since, else by marker and units."""
    drain = (reading.get("journal") or {}).get("drain")
    if drain:
        return not drain.get("out_of_service")
    if reading.get("drained"):
        return False
    units = observation.get("units") or {}
    known = [units[name] for name in SERVING_UNITS if name in units]
    return any(unit.get("active") or unit.get("enabled") for unit in known) if known else True


def of_the_stack(pending: Mapping[str, Sequence[Mapping[str, Any]]], *, serves: bool) -> list[Mapping[str, Any]]:
    """Return the differences due to another stack, without drifted settings and whether something currently runs."""
    roles = (*SET_ROLES, *(SERVING_ROLES if serves else ()))
    return [
        one
        for role in roles
        for one in pending.get(role) or ()
        if role in SET_ROLES or one["kind"] not in ("unit", "container")
    ]


def _resume(stack: str, journal: Mapping[str, Any]) -> Decision:
    states = [str(entry.get("state")) for entry in journal.get("entries") or ()]
    state = states[-1] if states else "none"
    if journal.get("stack") == stack:
        # A rollback under way must complete before the host can be moved again.
        return Decision(BACK, ["it was rolling back"], state) if "failed" in states else Decision(MOVE, [], state)
    if journal.get("previous_stack") == stack:
        return Decision(BACK, [f"the move to {journal.get('stack')} is given up"], state, given_up=True)
    reason = (
        f"is in the middle of a re-pin to {journal.get('stack')} (state {state}), found -e stack={stack}: finish it "
        f"with -e stack={journal.get('stack')}, or give it up with -e stack={journal.get('previous_stack')}"
    )
    return Decision(REFUSE, [reason], state)


def unhealthy(
    observation: Mapping[str, Any],
    reading: Mapping[str, Any],
    expected_gpus: int | None,
    wanted_gpus: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return why this host was unhealthy before any change; empty if it was healthy."""
    found = []
    broken = reading.get("dpkg_broken") or ()
    if broken:
        found.append(f"dpkg left {', '.join(broken)} half done: run `dpkg --configure -a` there")
    driver = observation.get("driver") or {}
    if not driver:
        reason = (observation.get("errors") or {}).get("driver", "no reading")
        found.append(f"the driver could not be read: {reason}")
        return found
    if driver.get("error"):
        found.append(f"nvidia-smi does not answer: {driver['error']}")
    versions = {name: driver.get(name) for name in ("installed", "loaded", "library") if driver.get(name)}
    if len(set(versions.values())) > 1:
        words = ", ".join(f"{name} {version}" for name, version in versions.items())
        found.append(f"the driver is {words}, expected one version: reboot it")
    gpus = observation.get("gpus") or {}
    if expected_gpus is not None and gpus.get("count", expected_gpus) != expected_gpus and not driver.get("error"):
        found.append(f"nvidia-smi lists {gpus['count']} GPUs, expected {expected_gpus}")
    fabric = (observation.get("units") or {}).get("nvidia-fabricmanager.service") or {}
    if driver.get("nvswitches") and fabric.get("load") == "loaded" and not fabric.get("active"):
        found.append("nvidia-fabricmanager.service does not run, although there are NVSwitches")
    # Any of these faults explains failures of the GPUs.
    return found or _gpu_faults(wanted_gpus, observation.get(health.KIND))


def _gpu_faults(want: Mapping[str, Any] | None, seen: Mapping[str, Any] | None) -> list[str]:
    """Return GPU checks that failed before the move, as they would be blamed on the new stack afterwards.

    Checks of what the stack itself pins are left out, as the move fixes these.
    """
    named = [one for one in health.not_right(want or {}, seen) if one["id"] not in health.STACK_CHECKS]
    return [f"{one['id']}: {one['observed']}, expected {one['expected']}" for one in named[:3]]


def _factory(difference: Mapping[str, Any], stack: str) -> str:
    return (
        f"has {difference['kind']} {difference['key']} {difference['observed']}, and {stack} {difference['expected']}: "
        "this is a factory driver, which is only changed when nvidia_driver_policy is set to install"
    )


def batches(hosts: Sequence[str]) -> list[list[str]]:
    """Return the order in which a serving group is moved: its last host alone, then all others at once.

    The group serves one model, so it is down until all hosts have moved; a bad release costs only one node's time.
    """
    return [[hosts[-1]], list(reversed(hosts[:-1]))] if len(hosts) > 1 else [list(hosts)]
