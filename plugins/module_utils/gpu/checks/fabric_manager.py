# SPDX-License-Identifier: Apache-2.0
"""Checks of the fabric manager of an NVSwitch system: its service, version and log, and the state of its fabric.

The state that a GPU reports is the driver's memory of what the fabric manager once did: it stays Completed for days
after the fabric manager has died. So it is believed only if the service runs and has the driver's version.

In a guest whose fabric is run by the owner of its host (partition.py) there is no service to examine: the driver
queries that fabric manager itself, over the NVLinks, whenever it is loaded, and the state of the GPUs is the only
evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...parsers.reading import Reading, of_kind, quoted
from ...verdicts import FAIL, NOT_APPLICABLE, PASS, worst
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import Expected
from ..partition import ACTIVATE, RUN_BY_HOST

SERVICE, VERSION, STATE, LOG, SXID = (
    "fabric_manager.service",
    "fabric_manager.version",
    "fabric_manager.state",
    "fabric_manager.log",
    "kernel.sxid",
)
_RUNS = "the service is active (running)"
_SAME = "the version of the driver"
_DONE = "Completed, Success on every GPU, by a running fabric manager of the driver's version"
_DONE_BY_HOST = "Completed, Success on every GPU, by the fabric manager of the host"
_NOT_HERE = "no fabric manager in a guest that has no NVSwitch"
_RESTART = "systemctl restart nvidia-fabricmanager"
_REMEDY_START = (
    "start the fabric manager, and read its log (`journalctl -u nvidia-fabricmanager`) if it does not stay up"
)
_REMEDY_VERSION = "install the fabric manager of exactly the driver's version, and reboot if the driver was changed"
_REMEDY_NO_SWITCH = (
    "check that the NVSwitches are present (`lspci -d 10de:`) and passed through; without them choose another profile"
)
_REMEDY_STATE = (
    "restart the fabric manager while no GPU is used, then reset the GPUs or reboot if the state does not change"
)
_REMEDY_ASK = (
    "ask the owner of the host whether the fabric partition of these GPUs is active; a driver that reports no state "
    "is too old for this"
)
_REMEDY_IDLE = (
    "find out where its NVSwitches are (`lspci -d 10de:`, `journalctl -u nvidia-fabricmanager`); if the machine "
    "never had any, the service has nothing to do and can be stopped"
)
_REMEDY_ALL = (
    "capture the service and the version, too: `systemctl status nvidia-fabricmanager`, `nv-fabricmanager --version`"
)
_STATE_KINDS = ("query-gpu", "smi-q", "smi-xml")
_DRIVER_KINDS = ("proc-version", "query-gpu", "smi-q", "smi-xml", "smi-version", "smi-table")
_NAMED = 8


def check_fabric_manager(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Return fabric_manager.service, .version, .log and .state, from all readings of one host together."""
    managers = of_kind(readings, "fabricmanager")
    stated = [one for one in readings if any(map(_has_state, _gpus(one)))]
    known = any(one.understood for one in managers)
    if not expected.nvswitch:
        return [_needless(one, known) for one in managers]
    if expected.fabric_by_host:
        return [*(_of_guest(one, known) for one in managers), *_guest_states(readings, stated, expected)]
    driver = _driver(readings)
    by_systemd = any((one.data.get("unit") or {}).get("active") for one in managers)
    told = [check for one in managers if (check := _service(one, by_systemd)) is not None]
    versions = _versions(managers, driver, expected)
    logs = [check for one in managers if (check := _log(one)) is not None]
    checks = [*told, *versions, *logs, *_fatal_errors(managers)]
    service, version = _together(told), _together(versions)
    return [*checks, *(_state(one, expected, service, version) for one in stated)]


def _needless(reading: Reading, known: bool) -> Check:
    """Without an NVSwitch it has nothing to do: an absent, idle or failed service is as acceptable as a running one.

    `known`: another text reports on it, so that an empty one (the log of a service that is not there) is acceptable.
    """
    if not reading.understood and not known:
        return could_not_check(SERVICE, reading, "no fabric manager is needed", _some(reading.problems))
    return not_applicable(
        SERVICE, reading, "no fabric manager is needed", f"no NVSwitch; the service: {_told(reading)}"
    )


def _told(reading: Reading) -> str:
    """The state of the service in one word, from systemd or from its log."""
    unit = reading.data.get("unit") or {}
    return str(unit.get("active") or unit.get("load") or reading.data.get("log_state") or "unknown")


def _of_guest(reading: Reading, known: bool) -> Check:
    """In a guest without NVSwitches it is absent, idle or has exited at once; a running one has found something."""
    if not reading.understood and not known:
        return could_not_check(SERVICE, reading, _NOT_HERE, _some(reading.problems))
    if _told(reading) == "active":
        return could_not_check(SERVICE, reading, _NOT_HERE, "active, and no NVSwitch is on the bus", _REMEDY_IDLE)
    return not_applicable(SERVICE, reading, _NOT_HERE, f"{RUN_BY_HOST}; the service here: {_told(reading)}")


def _guest_states(readings: Sequence[Reading], stated: Sequence[Reading], expected: Expected) -> list[Check]:
    """Check the state in a guest. It is the only proof of this fabric, so its absence is reported, too."""
    if stated:
        return [_state(one, expected, NOT_APPLICABLE, NOT_APPLICABLE) for one in stated]
    asked = of_kind(readings, *_STATE_KINDS)[:1]
    return [could_not_check(STATE, one, _DONE_BY_HOST, "the state is not reported", _REMEDY_ASK) for one in asked]


def _together(checks: Sequence[Check]) -> str:
    """The combined verdict of all sources: one that proves it outweighs one that is silent."""
    verdicts = [str(one["verdict"]) for one in checks]
    return PASS if PASS in verdicts and FAIL not in verdicts else worst(verdicts)


def _some(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - _NAMED} more" if len(sentences) > _NAMED else ""
    return "; ".join(sentences[:_NAMED]) + more


# --- service ---------------------------------------------------------------------------------------------------------


def _service(reading: Reading, by_systemd: bool) -> Check | None:
    """Check the service; None if the text is only about something else, such as the version.

    `by_systemd`: some text has the unit's state.
    """
    data = reading.data
    unit: Mapping[str, Any] = data.get("unit") or {}
    if not reading.understood:
        return could_not_check(SERVICE, reading, _RUNS, _some(reading.problems) or "nothing readable")
    cause = _cause(data)
    if unit.get("load") in ("not-found", "masked") and unit.get("active", "inactive") in ("inactive", "failed"):
        word = "not installed" if unit["load"] == "not-found" else "masked"
        remedy = _REMEDY_VERSION if unit["load"] == "not-found" else "unmask and start nvidia-fabricmanager"
        return failed(SERVICE, reading, _RUNS, f"the service is {word}", remedy)
    active, sub = unit.get("active"), unit.get("sub")
    if active is None and data.get("no_program") and not by_systemd:
        return failed(SERVICE, reading, _RUNS, "the fabric manager is not installed", _REMEDY_VERSION)
    if active is None:
        return _by_log(reading, cause, by_systemd)
    doubts = [problem for problem in reading.problems if problem.startswith("the unit")]
    if doubts:
        return could_not_check(SERVICE, reading, _RUNS, _some(doubts))
    if active == "active" and sub in (None, "running") and not unit.get("ended"):
        at_boot = ", but not enabled: it does not start at the next boot" if unit.get("enabled") is False else ""
        return passed(SERVICE, reading, _RUNS, f"active{' (running)' if sub else ''}{at_boot}")
    found = f"{active} ({sub})" if sub else str(active)
    if unit.get("ended"):
        found += f", its process exited: {unit['ended']}"
    return failed(SERVICE, reading, _RUNS, f"the service is {found}{cause and f': {cause}'}", *_repair(data))


def _by_log(reading: Reading, cause: str, by_systemd: bool) -> Check | None:
    """Evaluate the log, which shows how a start went, not whether the service still runs; systemd's answer decides."""
    data = reading.data
    state = data.get("log_state")
    if state and by_systemd:
        return could_not_check(SERVICE, reading, _RUNS, f"the last state in the log: {state}")
    if state == "failed":
        return failed(SERVICE, reading, _RUNS, f"it failed: {cause or quoted(_last_error(data))}", *_repair(data))
    if state == "stopped":
        return failed(SERVICE, reading, _RUNS, "it was stopped, according to its log", _REMEDY_START, _RESTART)
    if state is None and {"version", "fabric"} & data.keys() and not reading.problems:
        return None
    why = "the log shows a start, not whether it still runs" if state else _some(reading.problems)
    why = why or _last_error(data) or "the state of the service is not reported"
    return could_not_check(SERVICE, reading, _RUNS, why, "capture `systemctl status nvidia-fabricmanager`")


def _log(reading: Reading) -> Check | None:
    """Check the log since the last start; None if there is no log, or if the service's own check covers it."""
    data = reading.data
    expected = "switches configured, and no error since"
    absent = (data.get("unit") or {}).get("load") == "not-found"
    if absent or data.get("log_state") in ("failed", "stopped") or any(one["fatal"] for one in data.get("sxids") or ()):
        return None
    errors = data.get("errors") or []
    if errors:
        return failed(LOG, reading, expected, _some([quoted(line) for line in errors]), _REMEDY_STATE)
    if not data.get("configured") and not data.get("serves"):
        return None
    harmless = [f"SXid {one['number']}, not fatal{_often(one)}" for one in data.get("sxids") or () if not one["fatal"]]
    right = "switches configured" if data.get("configured") else "it answers requests from the GPUs"
    return passed(LOG, reading, expected, _some([right, *harmless]))


def _often(event: Mapping[str, Any]) -> str:
    return "" if event["count"] == 1 else f" {event['count']} times"


def _last_error(data: Mapping[str, Any]) -> str:
    return str((data.get("errors") or [""])[-1])


def _cause(data: Mapping[str, Any]) -> str:
    if "mismatch" in data:
        versions = data["mismatch"]
        if not versions:
            return "its version is not the driver's"
        return f"its version {versions['fabric_manager']} is not the driver's {versions['driver']}"
    if data.get("wrong_topology"):
        return "it found fewer NVSwitches than a supported system has"
    return "it found no NVSwitch" if data.get("nothing_to_do") else ""


def _repair(data: Mapping[str, Any]) -> tuple[str, str | None]:
    """The remedy and its command; a restart helps only if nothing else keeps the service from running."""
    if "mismatch" in data:
        return _REMEDY_VERSION, None
    if data.get("nothing_to_do") or data.get("wrong_topology"):
        return _REMEDY_NO_SWITCH, None
    return _REMEDY_START, _RESTART


def _fatal_errors(managers: Sequence[Reading]) -> list[Check]:
    """Report fatal NVSwitch errors that it has logged; their absence can only be shown by the kernel's log."""
    checks = []
    for reading in managers:
        fatal = [one for one in reading.data.get("sxids") or [] if one["fatal"]]
        if fatal:
            found = _some([f"SXid {one['number']}{_often(one)}: {quoted(one['text'])}" for one in fatal])
            remedy = "stop what uses the GPUs and reboot the host; have the NVSwitch board serviced if it recurs"
            checks.append(failed(SXID, reading, "no fatal SXid", found, remedy))
    return checks


# --- version ---------------------------------------------------------------------------------------------------------


def _driver(readings: Sequence[Reading]) -> tuple[str, Reading] | None:
    """The driver's version from the first source that has it, starting with the kernel's own."""
    for kind in _DRIVER_KINDS:
        for reading in of_kind(readings, kind):
            told = reading.data.get("driver")
            if told:
                return str(told), reading
    return None


def _versions(managers: Sequence[Reading], driver: tuple[str, Reading] | None, expected: Expected) -> list[Check]:
    checks = []
    told = [one for one in managers if one.data.get("version") or "mismatch" in one.data]
    for reading in told:
        data = reading.data
        own = data.get("version")
        if "mismatch" in data:
            checks.append(failed(VERSION, reading, _SAME, _cause(data), _REMEDY_VERSION))
        elif driver and own != driver[0]:
            found = f"{own}; the driver is {driver[0]} ({driver[1].source or driver[1].kind})"
            checks.append(failed(VERSION, reading, _SAME, found, _REMEDY_VERSION))
        elif driver:
            checks.append(passed(VERSION, reading, _SAME, f"{own}, same as the driver"))
        elif expected.driver and own != expected.driver:
            checks.append(failed(VERSION, reading, f"{expected.driver}, as pinned", str(own), _REMEDY_VERSION))
        else:
            checks.append(could_not_check(VERSION, reading, _SAME, f"{own}; the driver's version is unknown"))
    if managers and not told:
        garbled = [problem for one in managers for problem in one.problems if problem.startswith("the version")]
        why = _some(garbled) or "the version of the fabric manager is not reported"
        checks.append(could_not_check(VERSION, managers[0], _SAME, why, "capture `nv-fabricmanager --version`"))
    return checks


# --- state -----------------------------------------------------------------------------------------------------------


def _gpus(reading: Reading) -> list[dict[str, Any]]:
    """The GPUs whose fabric state a reading reports, with the field names of --query-gpu."""
    if reading.kind in _STATE_KINDS:
        return list(reading.data.get("gpus") or ())
    if reading.kind == "fabricmanager":
        return [{f"fabric.{key}": value for key, value in one.items()} for one in reading.data.get("fabric") or ()]
    return []


def _has_state(gpu: Mapping[str, Any]) -> bool:
    return "fabric.state" in gpu


def _word(value: Any) -> str:
    return " ".join(str(value).split()).lower()


def _state(reading: Reading, expected: Expected, service: str, version: str) -> Check:
    gpus = _gpus(reading)
    done, remedy, ask = (
        (_DONE_BY_HOST, ACTIVATE, _REMEDY_ASK) if expected.fabric_by_host else (_DONE, _REMEDY_STATE, _REMEDY_ALL)
    )
    wrong, unclear = [], []
    for place, gpu in enumerate(gpus):
        name = f"GPU {gpu.get('index', place)}"
        state, status = gpu.get("fabric.state"), gpu.get("fabric.status")
        if not _has_state(gpu) or state is None:
            unclear.append(f"{name}: the state is {'N/A' if _has_state(gpu) else 'not reported'}")
        elif _word(state) != "completed":
            wrong.append(f"{name}: {state}")
        elif status is None:
            unclear.append(f"{name}: Completed, the status is not reported")
        elif _word(status) != "success":
            wrong.append(f"{name}: Completed, {status}")
    if wrong:
        return failed(STATE, reading, done, _some(wrong), remedy, _RESTART if service == FAIL else None)
    if service == FAIL:
        found = (
            "Completed, but the service does not run: the state is the driver's memory of a fabric manager that died"
        )
        return failed(STATE, reading, _DONE, found, _REMEDY_START, _RESTART)
    if version == FAIL:
        return failed(STATE, reading, _DONE, "Completed, but by a fabric manager of another version", _REMEDY_VERSION)
    if len(gpus) < expected.gpus or reading.data.get("complete") is False:
        unclear.append(f"{len(gpus)} of {expected.gpus} GPUs are shown")
    missing = [
        word
        for word, verdict in (("the service", service), ("the version", version))
        if verdict not in (PASS, NOT_APPLICABLE)
    ]
    if missing and any(gpu.get("fabric.state") is not None for gpu in gpus):
        unclear.append(
            f"Completed, but {' and '.join(missing)} of the fabric manager {'are' if missing[1:] else 'is'} unknown"
        )
    if unclear:
        return could_not_check(STATE, reading, done, _some(unclear), ask)
    return passed(STATE, reading, done, f"Completed, Success on {len(gpus)} GPUs")
