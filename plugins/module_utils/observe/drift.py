# SPDX-License-Identifier: Apache-2.0
"""Find out what moved a host off its pins, from the log entries of each package, and put it in words.

`last_changes` runs on the target, so that only the few relevant entries leave it; the sentences are made on the
controller. Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..parsers.apt_history import GONE, Change, Transaction

Cause = dict[str, Any]

PATHS = frozenset({"file", "settings", "venv", "cdi"})
"""Kinds whose key is a path on the host."""

_SLACK = timedelta(seconds=2)
"""Tolerance: apt records its times before and after dpkg's, in whole seconds."""

_VERBS = {
    "install": "installed",
    "reinstall": "installed again",
    "upgrade": "upgraded",
    "downgrade": "downgraded",
    "remove": "removed",
    "purge": "purged",
    "disappear": "replaced",
}


def last_changes(
    installed: Mapping[str, str | None],
    transactions: Sequence[Transaction],
    dpkg: Sequence[Change],
    when: Callable[[datetime], str] = str,
) -> dict[str, Cause]:
    """Return for each package the change that led to its present state, and its command; both logs are oldest first.

    dpkg.log has every change but no commands; apt's history has the commands, but not the direct calls of dpkg. A
    change in dpkg's log during an apt transaction that names the package is attributed to apt. `installed` are the
    present versions: a failed upgrade did not lead to them. `when` formats a local time.
    """
    found: dict[str, Cause] = {}
    for name, version in installed.items():
        change = _newest([one for one in dpkg if one.package == name], version)
        ours = [one for one in transactions if _own(one, name) is not None]
        if change is not None and change.at is not None:
            moment = change.at
            owner = next((one for one in reversed(ours) if _lasted(one, moment, transactions)), None)
            # Use the transaction's own time, the same for all of its packages.
            at = (owner.end or owner.start) if owner else change.at
            found[name] = _cause(_own(owner, name) or change, at, owner, when)
            continue
        # Without dpkg's log (rotated away, or never written), fall back to apt's.
        candidates = [(own, one) for one in ours if (own := _own(one, name)) is not None]
        chosen = _newest([own for own, _ in candidates], version)
        if chosen is not None:
            owner = next(one for own, one in reversed(candidates) if own is chosen)
            found[name] = _cause(chosen, owner.end or owner.start, owner, when)
    return found


def _lasted(one: Transaction, moment: datetime, transactions: Sequence[Transaction]) -> bool:
    """Whether the transaction was running at that moment; an unfinished one counts until the next one began."""
    if one.start is None or moment < one.start - _SLACK:
        return False
    if one.end is not None:
        return moment <= one.end + _SLACK
    return not any(other.start and one.start < other.start <= moment for other in transactions)


def _own(transaction: Transaction | None, name: str) -> Change | None:
    if transaction is None:
        return None
    return next((change for change in transaction.changes if change.package == name), None)


def _newest(changes: Iterable[Change], version: str | None) -> Change | None:
    """Return the latest change that led to this version; if none did, the latest of all."""
    listed = list(changes)
    fitting = [one for one in listed if (one.action in GONE if version is None else one.after == version)]
    return (fitting or listed)[-1] if listed else None


def _cause(
    change: Change, at: datetime | None, transaction: Transaction | None, when: Callable[[datetime], str]
) -> Cause:
    return {
        "action": change.action,
        "before": change.before,
        "after": change.after,
        "at": when(at) if at is not None else None,
        "command": transaction.command if transaction else None,
        "requested_by": transaction.requested_by if transaction else None,
        "error": transaction.error if transaction else None,
        "ended": transaction.end is not None if transaction else True,
        "log": "apt" if transaction else "dpkg",
    }


def by_what(
    record_id: str,
    observed: Any,
    history: Mapping[str, Any],
    driver_package: str | None = None,
    moved: Collection[str] = (),
) -> str | None:
    """Return what caused a check to fail, as far as the host's logs show; None if they do not.

    `moved` are the packages that are not at their pinned version.
    """
    kind, _, key = record_id.partition(".")
    packages = history.get("packages") or {}
    if kind == "package":
        return _package_words(packages.get(key), history)
    if kind == "hold":
        return _hold_words(packages.get(key) if key in moved else None)
    if kind == "driver":
        return _driver_words(key, packages.get(driver_package or ""), history)
    if kind in PATHS:
        return _path_words((history.get("paths") or {}).get(key), observed)
    if kind == "sysctl":
        return _sysctl_words((history.get("sysctl") or {}).get(key), observed)
    if kind in ("unit", "container"):
        unit = key if kind == "unit" else f"{key}.service"
        return _unit_words((history.get("units") or {}).get(unit))
    return None


def _package_words(cause: Mapping[str, Any] | None, history: Mapping[str, Any]) -> str | None:
    if cause:
        return change_words(cause)
    since = history.get("since")
    return f"the logs of apt and dpkg, which go back to {since}, do not name it" if since else None


def change_words(cause: Mapping[str, Any]) -> str:
    """Describe a package change in one clause: who, what, from which version to which, when."""
    verb = _VERBS.get(str(cause.get("action")), "changed")
    if cause.get("log") == "dpkg" and verb == "upgraded":
        verb = "moved"  # dpkg's log records a downgrade as an upgrade, too
    before, after = cause.get("before"), cause.get("after")
    versions = f" from {before} to {after}" if before and after and before != after else f" {after or before or ''}"
    words = f"{_actor(cause)} {verb} it{versions.rstrip()}"
    if cause.get("at"):
        words += f" at {cause['at']}"
    if cause.get("error"):
        words += f", and ended with: {cause['error']}"
    elif not cause.get("ended", True):
        words += ", and never finished (killed, or the host lost power)"
    return words


def _actor(cause: Mapping[str, Any]) -> str:
    if cause.get("log") == "dpkg":
        return "dpkg without apt (as `dpkg -i` does)"
    command = str(cause.get("command") or "")
    program = command.split(" ", 1)[0].rsplit("/", 1)[-1]
    if program.startswith("unattended-upgrade"):
        name = "unattended-upgrades"
    elif program == "aptdaemon" or "role=" in command:
        name = f"{program} (`{command}`)"
    else:
        name = f"`{command}`" if command else "apt, without a command line in its history,"
    return f"{name} for {cause['requested_by']}" if cause.get("requested_by") else name


def _hold_words(cause: Mapping[str, Any] | None) -> str:
    command = str((cause or {}).get("command") or "")
    # dpkg clears the hold of a package that it installs, and so does apt when told to. A package that is still at its
    # pinned version was put on hold after its last change, so that change's command is not the cause.
    if cause and (cause.get("log") == "dpkg" or "--allow-change-held-packages" in command):
        return change_words(cause)
    return "no log records who removes a hold (`apt-mark unhold` leaves no trace)"


def _driver_words(key: str, cause: Mapping[str, Any] | None, history: Mapping[str, Any]) -> str | None:
    boot = history.get("boot")
    if key in ("installed", "mixed"):
        return change_words(cause) if cause else None
    if key not in ("loaded", "library", "answer", "flavour"):
        return f"the host booted at {boot}" if boot and key == "nouveau" else None
    if cause is None:
        return f"the host booted at {boot}" if boot else None
    at = cause.get("at")
    if not boot or not at:
        return change_words(cause)
    if str(at) <= str(boot):
        return f"{change_words(cause)}; the host booted at {boot}, which loaded it"
    return f"{change_words(cause)}; the host has run since {boot} and not booted since then"


def _path_words(found: Mapping[str, Any] | None, observed: Any) -> str | None:
    if not found or not found.get("changed"):
        return None
    absent = isinstance(observed, Mapping) and observed.get("exists") is False
    if absent:
        return f"no log names the cause; its directory was last changed at {found['changed']}"
    return f"no log names the cause; it was last written at {found['changed']}"


def _sysctl_words(found: Mapping[str, Any] | None, observed: Any) -> str:
    if found and str(found.get("value")) == str(observed):
        return f"{found['path']} sets it"
    if found:
        return f"set by hand or by a program since the boot: {found['path']} sets it to {found['value']}"
    return "no file of sysctl.d sets it: it is the kernel's own value, or was set by hand"


def _unit_words(found: Mapping[str, Any] | None) -> str | None:
    if not found or not found.get("since"):
        return None
    result = found.get("result")
    how = "" if not result or result == "success" else f", after it failed ({result})"
    return f"{found.get('state') or 'unchanged'} since {found['since']}{how}"
