# SPDX-License-Identifier: Apache-2.0
"""The kinds of state that only host_tuning has: their comparison, messages and remedies.

    managers   {"systemd/DefaultLimitMEMLOCK": "infinity", "logind/RemoveIPC": "no"}   the running values, not the files
    linger     {account: bool}           whether an account's services outlive its sessions
    governor   "performance"             of every CPU; satisfied if no CPU has a choice
    swap       "off"                     no swap device is active
    clock      {"synchronized": bool}    a time service is enabled; with true, the clock is also synchronised
    ledgers    {path: {"keeps": [...]}}  the ledger has no entries other than these

Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..state.vocabulary import UNKNOWN, Difference, Peers, difference, one_spaced, register


def _optional_sysctl(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """A kernel without the setting is accepted."""
    found = []
    for key, value in desired.items():
        have = observed.get(key, UNKNOWN)
        if have is not None and one_spaced(have) != one_spaced(value):
            found.append(difference("sysctl", key, one_spaced(value), have))
    return found


def _managers(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """A host without logind is accepted, as it ends nobody's session."""
    found = []
    for key, value in desired.items():
        have = observed.get(key, UNKNOWN)
        if have is None and key.startswith("logind/"):
            continue
        if have != value:
            found.append(difference("manager", key, value, UNKNOWN if have is None else have))
    return found


def _linger(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    return [
        difference("linger", user, bool(want), observed.get(user, UNKNOWN))
        for user, want in desired.items()
        if observed.get(user, UNKNOWN) is not bool(want)
    ]


def _swap(desired: str, observed: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    devices = observed.get("swap", UNKNOWN)
    if desired != "off" or devices == []:
        return []
    listed = UNKNOWN if devices == UNKNOWN else " ".join(str(one["device"]) for one in devices)
    return [difference("swap", "swap", "off", listed)]


def _governor(desired: str, observation: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    observed = observation.get("governor")
    if observed is None:
        return [difference("governor", "governor", desired, UNKNOWN)]
    wrong = {name: one for name, one in observed.items() if one.get("governor") != desired}
    if not wrong:
        return []
    seen = {name: one.get("governor") for name, one in wrong.items()}
    lacking = [one for one in wrong.values() if desired not in (one.get("available") or [])]
    offered = {"offered": " ".join(lacking[0].get("available") or []) or "none"} if lacking else {}
    return [difference("governor", "governor", desired, {**seen, **offered})]


def _clock(desired: Mapping[str, Any], observation: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    observed = observation.get("clock")
    if observed is None:
        return [difference("clock", "clock", {"service": "one that keeps the time"}, UNKNOWN)]
    if not observed.get("service"):
        return [difference("clock", "clock", {"service": "one that keeps the time"}, {"service": None})]
    # Without `synchronized`, the service need not run: it may be unable to (in a container, for example).
    wanted = {"enabled": True} | ({"active": True, "synchronized": True} if desired.get("synchronized") else {})
    expected = {field: value for field, value in wanted.items() if observed.get(field) is not value}
    if not expected:
        return []
    seen = {field: observed.get(field) if observed.get(field) is not None else UNKNOWN for field in expected}
    return [difference("clock", "clock", expected, {"service": observed["service"], **seen})]


def _ledgers(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for path, want in desired.items():
        have = observed.get(path)
        if have is None:
            found.append(difference("ledger", path, {"keeps": "nothing else"}, UNKNOWN))
        elif have.get("error"):
            found.append(difference("ledger", path, {"keeps": "nothing else"}, {"error": have["error"]}))
        else:
            rest = sorted(set(have.get("keeps") or []) - set(want.get("keeps") or []))
            # An interrupted run leaves an empty ledger behind.
            if rest or (have.get("exists") and not want.get("keeps")):
                found.append(difference("ledger", path, {"keeps": "nothing else"}, {"keeps": rest}))
    return found


def is_waiting(item: Mapping[str, Any]) -> bool:
    """Whether there is nothing to change: the clock's service runs, but the time is not synchronised yet."""
    return item["kind"] == "clock" and set(item["expected"]) == {"synchronized"}


# --- messages ---------------------------------------------------------------------------------------------------


def _sentence_of_manager(key: str, expected: Any, observed: Any) -> str:
    service, _, name = key.partition("/")
    return f"{name} of the running {service} is {observed}, expected {expected}"


def _sentence_of_linger(key: str, expected: Any, observed: Any) -> str:
    words = {True: "outlive its sessions", False: "end with its last session"}
    return (
        f"services of account {key} {words.get(observed, 'are ' + UNKNOWN)}, expected that they {words[bool(expected)]}"
    )


def _sentence_of_governor(_key: str, expected: Any, observed: Any) -> str:
    if observed == UNKNOWN:
        return f"CPU governor is {UNKNOWN}, expected {expected}"
    seen = " ".join(sorted({str(value) for name, value in observed.items() if name != "offered"}))
    offered = f"; the kernel offers only {observed['offered']}" if "offered" in observed else ""
    return f"CPU governor is {seen}, expected {expected}{offered}"


def _sentence_of_swap(_key: str, _expected: Any, observed: Any) -> str:
    return f"swap is {UNKNOWN if observed == UNKNOWN else 'on: ' + str(observed)}, expected none"


def _sentence_of_clock(_key: str, expected: Any, observed: Any) -> str:
    if observed == UNKNOWN:
        return "the time service is unknown, expected one"
    service = observed.get("service")
    if not service:
        return f"there is no time service (none of {CLOCK_WORDS} is installed), expected one"
    words = {"enabled": "is not enabled", "active": "does not run", "synchronized": "has not set the clock yet"}
    wrong = [words[field] for field in expected if field in words]
    return f"time service {service} {' and '.join(wrong)}, expected it to keep the clock right"


CLOCK_WORDS = "chrony, ntpsec, ntp, openntpd and systemd-timesyncd"


def _sentence_of_ledger(key: str, _expected: Any, observed: Any) -> str:
    if observed == UNKNOWN:
        return f"{key} is unknown, expected to read what has to be restored"
    if "error" in observed:
        return f"{key} cannot be used ({observed['error']}), expected the host's former settings"
    return f"{', '.join(observed['keeps']) or key} is still changed, expected its former state"


register(
    named={"optional_sysctl": _optional_sysctl, "managers": _managers, "linger": _linger, "ledgers": _ledgers},
    compared={"governor": _governor, "swap": _swap, "clock": _clock},
    sentences={
        "manager": _sentence_of_manager,
        "linger": _sentence_of_linger,
        "governor": _sentence_of_governor,
        "swap": _sentence_of_swap,
        "clock": _sentence_of_clock,
        "ledger": _sentence_of_ledger,
    },
)


def tuning_remedy(host: str, item: Mapping[str, Any]) -> str | None:
    """Return what to do if running site.yml does not suffice, or None."""
    if is_waiting(item):
        return (
            f"let {host} reach a time server (`timedatectl timesync-status` or `chronyc sources` says what is "
            "wrong), or "
            "set host_tuning_time_synchronized to false"
        )
    if item["kind"] == "governor" and isinstance(item["observed"], Mapping) and "offered" in item["observed"]:
        return f"set host_tuning_governor to keep, or to one of: {item['observed']['offered']}"
    if item["kind"] == "ledger" and isinstance(item["observed"], Mapping) and "error" in item["observed"]:
        return f"restore a copy of {item['key']} on {host}, or move it away: its present settings then count as its own"
    return None
