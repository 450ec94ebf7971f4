# SPDX-License-Identifier: Apache-2.0
"""The records of a verification, one per check: expected, observed, verdict, remedy, and the cause of a drift.

A check that matches is `pass`, one that differs is `fail`, one the host does not need is `not_applicable`, and one that
could not be made is `could_not_check`, which never counts as passed. The comparison is `differences`, as in a bring-up;
here each compared item gets a stable name.
All functions are pure, and records contain no secrets: files are given by digest, secret ones by a description.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import matches, wanted_words
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import DRAINED_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric import kinds as fabric_kinds
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.firmware import KIND as FIRMWARE
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.firmware import cause as firmware_cause
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.firmware import explanation, firmware_remedy
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu import health
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.drift import PATHS, by_what
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt_history import without_credentials
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.kinds import group_remedy
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import (
    UNKNOWN,
    WHOLE,
    file_mode,
    one_spaced,
    wanted_digest,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.kinds import tuning_remedy
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import (
    CONTENT,
    COULD_NOT_CHECK,
    FAIL,
    NOT_APPLICABLE,
    PASS,
)

from .differences import Difference, differences
from .image_kinds import image_words

Record = dict[str, Any]

STACK_ROLES = frozenset({"nvidia_driver", "cuda_toolkit", "container_runtime"})
"""Roles whose packages change together, in a separate transaction, while nothing serves."""

_ONE = {
    "packages": "package",
    "holds": "hold",
    "files": "file",
    "json_files": "settings",
    "units": "unit",
    "links": "link",
    "images": "image",
    "containers": "container",
    "snapshots": "snapshot",
    "distributions": "distribution",
    "optional_sysctl": "sysctl",
}
"""Singular of a kind in a record's id, if it is not the kind's name without its s."""

_PREFACES = ("Task failed: ", "via ssh: ", "over ssh: ")
"""The text up to one of these is Ansible's own and varies; what follows is ssh's message."""

_UNCOUNTED = frozenset({"disk_free"})
"""Free space for a download is not verified: the download itself uses it up."""

_NOT_CONVERGED = frozenset({"gpus", "link", "distribution"})
_SERVING = frozenset({"unit", "container", "group"})


def records(
    host: str,
    desired_by_role: Mapping[str, Mapping[str, Any]],
    observation: Mapping[str, Any],
    peers: Mapping[str, Mapping[str, Any]] | None = None,
    history: Mapping[str, Any] | None = None,
    stack: str | None = None,
) -> list[Record]:
    """Return the record of every check of these desired states on one host, in the order of the roles; each id once.

    Without a history, the cause of a failed check is given only where the observation shows it.
    """
    found: dict[str, Record] = {}
    for role, desired in desired_by_role.items():
        checked = {kind: want for kind, want in (desired or {}).items() if kind not in (*_UNCOUNTED, health.KIND)}
        evaluated = {record_id(one["kind"], one["key"]): one for one in differences(checked, observation, peers)}
        for name, (expected, seen) in {
            **_checks(checked, observation),
            **dict.fromkeys(evaluated, (None, None)),
        }.items():
            item = evaluated.get(name)
            if item is None:
                found.setdefault(name, make_record(name, host, expected, seen, PASS))
                continue
            # Two roles may ask for the same thing; a failure takes precedence.
            if found.get(name, {}).get("verdict") != FAIL:
                found[name] = _evaluated(name, host, role, item, observation, checked, stack)
        for check in health.evaluated_checks((desired or {}).get(health.KIND) or {}, observation.get(health.KIND)):
            if found.get(check["id"], {}).get("verdict", PASS) in CONTENT:
                found[check["id"]] = _of_gpus(host, check)
    listed = [*_standing(host, observation), *found.values()]
    moved = {str(one["id"]).removeprefix("package.") for one in wrong(listed) if one["id"].startswith("package.")}
    driver = driver_package(desired_by_role)
    return [_masked({**one, "by": _cause(one, observation, history, driver, moved)}) for one in listed]


def silent(host: str, reason: str) -> list[Record]:
    """Return the one record of a host that could not be observed."""
    remedy = f"make {host} answer (`ansible -m ping {host}`), then run verify.yml again"
    return [make_record("host.answer", host, "an answer", last_line(reason) or "none", COULD_NOT_CHECK, remedy)]


def last_line(reason: str | None) -> str:
    """Return why a host does not answer, without Ansible's prefixes: the same with and without a playbook."""
    said = _one_line(reason)
    for preface in _PREFACES:
        said = said.partition(preface)[2] or said
    return said


def wrong(found: Iterable[Record]) -> list[Record]:
    """Return the records that did not pass, apart from those that do not apply."""
    return [one for one in found if one["verdict"] not in CONTENT]


def record_id(kind: str, key: str) -> str:
    """Return the stable name of a check: package.nvidia-utils-580, driver.loaded, gpus."""
    if kind == health.CHECK:
        return key
    return kind if key == kind else f"{kind}.{key}"


def lines(found: Iterable[Record]) -> list[str]:
    """Render a host's records: the failures with cause and remedy, and a count of the rest."""
    listed = list(found)
    # Failures with the same cause and remedy, such as packages that one command changed, are grouped.
    together: dict[tuple[str, str], list[Record]] = {}
    for one in wrong(listed):
        together.setdefault((str(one["by"] or ""), _to_do(one)), []).append(one)
    shown = []
    for (by, remedy), group in together.items():
        for one in group:
            mark = "FAIL" if one["verdict"] == FAIL else "NO CHECK"
            shown.append(f"{mark:<9}{one['id']}: {_short(one['observed'])}, expected {_short(one['expected'])}")
        if by:
            shown.append(f"         by   {by}")
        shown.append(f"         do   {remedy}")
    applicable = [one for one in listed if one["verdict"] != NOT_APPLICABLE]
    right = sum(one["verdict"] == PASS for one in applicable)
    shown.append(f"{right} of {len(applicable)} checks passed")
    return shown


def _to_do(one: Record) -> str:
    return f"{one['remedy']}: `{one['command']}`" if one.get("command") else str(one["remedy"])


def verdict_line(host: str, found: Iterable[Record]) -> str:
    """Summarise a host with failures in one paragraph: the failed checks and the remedies, each once."""
    bad = wrong(found)
    names = [str(one["id"]) for one in bad]
    listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    remedies = list(dict.fromkeys(_to_do(one) for one in bad))
    return f"{host} differs from its plan: {listed}. {'; '.join(_capital(one) for one in remedies)}."


def suspects(found: Iterable[Record], observation: Mapping[str, Any], driver: str | None = None) -> dict[str, Any]:
    """Return what to search the host's logs for, as option history of module observe; empty if nothing failed."""
    packages: dict[str, Any] = {}
    asked: dict[str, list[str]] = {"paths": [], "units": [], "sysctl": []}
    firmware = False
    installed = observation.get("packages") or {}
    for one in found:
        if one["verdict"] != FAIL:
            continue
        kind, _, key = str(one["id"]).partition(".")
        if kind in ("package", "hold"):
            packages[key] = installed.get(key)
        elif kind == "driver" and driver:
            packages[driver] = installed.get(driver)
        elif kind in PATHS:
            asked["paths"].append(key)
        elif kind == "unit":
            asked["units"].append(key)
        elif kind == "container":
            asked["units"].append(f"{key}.service")
        elif kind == "sysctl":
            asked["sysctl"].append(key)
        firmware = firmware or kind == FIRMWARE
    chosen: dict[str, Any] = {"packages": packages} if packages else {}
    chosen |= {"fwupd": True} if firmware else {}
    return chosen | {kind: list(dict.fromkeys(names)) for kind, names in asked.items() if names}


def driver_package(desired_by_role: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the package whose version identifies the pinned driver."""
    names = [((desired or {}).get("driver") or {}).get("package") for desired in desired_by_role.values()]
    return next((str(name) for name in names if name), None)


def _of_gpus(host: str, check: Mapping[str, Any]) -> Record:
    """Make a record of a GPU check, which was evaluated on the host."""
    fields = (check["expected"], check["observed"], check["verdict"], check["remedy"], check["command"])
    return make_record(str(check["id"]), host, *fields)


def make_record(
    name: str,
    host: str,
    expected: Any,
    observed: Any,
    verdict: str,
    remedy: str = "",
    command: str | None = None,
) -> Record:
    """Return a record without a cause; `command` carries out the remedy and is safe to run."""
    return {
        "id": name,
        "host": host,
        "expected": expected,
        "observed": observed,
        "verdict": verdict,
        "remedy": remedy,
        "command": command,
        "by": None,
    }


def _evaluated(
    name: str,
    host: str,
    role: str,
    item: Difference,
    observation: Mapping[str, Any],
    desired: Mapping[str, Any],
    stack: str | None,
) -> Record:
    reason = _why_unknown(item, observation)
    if reason:
        remedy = f"find out why ({reason}), then run verify.yml again"
        return make_record(name, host, item["expected"], f"could not be checked: {reason}", COULD_NOT_CHECK, remedy)
    remedy = _remedy(role, host, item, observation, desired, stack)
    return make_record(name, host, item["expected"], fabric_kinds.seen(item), FAIL, remedy)


def _why_unknown(item: Difference, observation: Mapping[str, Any]) -> str | None:
    """Return why the item could not be checked; None if it was checked and differs."""
    kind, seen = item["kind"], item["observed"]
    plural = next((many for many, one in _ONE.items() if one == kind), f"{kind}s")
    errors = observation.get("errors") or {}
    if kind in fabric_kinds.SENTENCES:
        unread = _one_line(errors.get(fabric_kinds.PROBE)) or fabric_kinds.unread(item)
        return unread if fabric_kinds.cannot_tell(item) else None
    probe = "facts" if kind == "distribution" else plural if plural in errors else kind
    reason = _one_line(errors.get(probe)) or "it was not checked"
    if seen == UNKNOWN:
        return reason
    if not isinstance(seen, Mapping):
        driver = observation.get("driver") or {}
        if kind == "driver" and item["key"] == "library" and seen is None and driver.get("error"):
            return _one_line(driver["error"])
        return None
    if kind == "gpus" and seen.get("error"):
        return reason if probe in errors else _one_line(seen["error"])
    if kind == "cdi" and seen.get("waiting"):
        return _one_line(seen["waiting"])
    if kind == "snapshot" and probe in errors:
        return reason
    words = [value for value in seen.values() if value is not None]
    if words and all(value == UNKNOWN or str(value).endswith("has none to compare with") for value in words):
        compared = next((str(value) for value in words if value != UNKNOWN), None)
        return compared or reason
    return None


def _remedy(
    role: str,
    host: str,
    item: Difference,
    observation: Mapping[str, Any],
    desired: Mapping[str, Any],
    stack: str | None,
) -> str:
    kind, key = item["kind"], item["key"]
    driver = observation.get("driver") or {}
    if kind == "driver":
        if key == "mig":
            return f"turn MIG off on {host} (`nvidia-smi -mig 0`) and reset its GPUs"
        if key == "nouveau" or (key in ("loaded", "library", "answer", "flavour") and _waits(driver, desired)):
            return f"reboot {host}, so that it loads the driver that is installed, then run verify.yml again"
        if key == "answer" and _is_one(driver):
            return f"check `nvidia-smi` and `dmesg` on {host}, then reboot it"
        return _put_back(host, driver, desired, stack)
    if kind == "package" and role in STACK_ROLES and item["observed"] is not None:
        return _put_back(host, driver, desired, stack)
    if kind in _NOT_CONVERGED and role == "preflight":
        return f"check the hardware and system of {host}: no run changes these"
    own = tuning_remedy(host, item) or fabric_kinds.remedy(item) or firmware_remedy(item) or group_remedy(host, item)
    return own or "run site.yml"


def _is_one(driver: Mapping[str, Any]) -> bool:
    """Return whether package, module and library have the same version; otherwise repin.yml refuses the host."""
    return len({driver[name] for name in ("installed", "loaded", "library") if driver.get(name)}) <= 1


def _waits(driver: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
    """Return whether the installed driver matches, and only a reboot is missing."""
    right = matches(driver.get("installed"), desired.get("driver") or {})
    return right and driver.get("installed") != driver.get("loaded")


def _put_back(host: str, driver: Mapping[str, Any], desired: Mapping[str, Any], stack: str | None) -> str:
    """Return the remedy that restores packages of the stack to their pins: repin.yml, if it accepts this host."""
    want = desired.get("driver") or {}
    if want and not want.get("version") and not matches(driver.get("installed"), want):
        return f"install a driver of {wanted_words(want)} on {host} with the means of its vendor, and reboot it"
    if driver.get("silent") or (driver.get("error") and _is_one(driver)):
        return f"make `nvidia-smi` answer on {host} first, see driver.answer, then run verify.yml again"
    if not _is_one(driver):
        return (
            f"take {host} out of service (`systemctl stop firstlight-supervisor firstlight-server firstlight-ray`), "
            "then run site.yml with -e nvidia_driver_policy=install; repin.yml leaves a host alone whose loaded driver "
            "is not the installed one"
        )
    return f"run repin.yml with -e stack={stack}" if stack else "run repin.yml with the stack that is pinned"


def _standing(host: str, observation: Mapping[str, Any]) -> list[Record]:
    """Return the records of an unfinished re-pin and of a drained host, first as they explain many other failures."""
    facts = observation.get("facts") or {}
    repin, drained = facts.get("repin"), facts.get("drained")
    found = []
    if repin:
        remedy = "finish the re-pin: run repin.yml again with the stack it was begun with"
        words = f"one that stopped at {repin}"
        found.append(make_record("repin.journal", host, "no re-pin under way", words, FAIL, remedy))
    if drained:
        remedy = (
            "finish the re-pin" if repin else f"remove {DRAINED_PATH} when {host} is to serve again, and run site.yml"
        )
        found.append(make_record("host.drained", host, "in service", "out of service", FAIL, remedy))
    return found


def _cause(
    one: Record,
    observation: Mapping[str, Any],
    history: Mapping[str, Any] | None,
    driver: str | None,
    moved: Collection[str],
) -> str | None:
    """Return the cause of a failed check, if it is known."""
    name = str(one["id"])
    drained = (observation.get("facts") or {}).get("drained")
    if one["verdict"] != FAIL:
        return None
    if drained and name.partition(".")[0] in _SERVING and ("firstlight-" in name or name.startswith("group.")):
        return "the host is out of service (see host.drained)"
    if name.startswith(f"{FIRMWARE}."):
        return firmware_cause(one["expected"], history)
    told = explanation(name, observation)
    return told if told or history is None else by_what(name, one["observed"], history, driver, moved)


def _checks(desired: Mapping[str, Any], observation: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return every check of these states by id, with the expected value and the observed one of a check that passes."""
    found: dict[str, tuple[Any, Any]] = {}
    for kind, wanted in desired.items():
        if not wanted:
            continue
        if kind == "driver":
            found |= _driver_checks(wanted, observation.get("driver"))
        elif kind in WHOLE or not isinstance(wanted, Mapping):
            facts = observation.get("facts") or {}
            here = {field: facts.get(field) for field in ("distribution", "version")}
            found[_ONE.get(kind, kind)] = (wanted, here if kind == "distributions" else wanted)
        else:
            one = _ONE.get(kind, kind if kind == "sysctl" else kind.removesuffix("s"))
            seen = observation.get(kind)
            for key, want in wanted.items():
                expected = _expected(kind, want)
                have = seen.get(key) if kind == "packages" and isinstance(seen, Mapping) else expected
                found[record_id(one, str(key))] = (expected, have)
    return found


def _expected(kind: str, want: Any) -> Any:
    if kind == "files":
        told: dict[str, Any] = {"exists": True}
        if (digest := wanted_digest(want)) is not None:
            told = {"sha256": digest}
        elif want.get("same_as"):
            told = {"content": f"equal to {want['same_as']}"}
        mode = {"mode": file_mode(want["mode"])} if "mode" in want else {}
        return {**told, **mode, **{field: want[field] for field in ("owner", "group") if want.get(field)}}
    if kind == "images":
        return image_words(want)
    if kind == "json_files":
        return {"settings": " ".join(sorted(want.get("settings") or {}))}
    if kind == "venvs":
        return {"lock": want["lock"]}
    if kind in ("sysctl", "optional_sysctl"):
        return one_spaced(want)
    if kind == "rails":
        return fabric_kinds.rail_words(want)
    if kind == "ledgers":
        return {"keeps": "nothing else"}
    if kind == FIRMWARE:
        return "as the fabric was tested with"
    return {"exists": True} if want == {} else want


def _driver_checks(want: Mapping[str, Any], seen: Mapping[str, Any] | None) -> dict[str, tuple[Any, Any]]:
    """Return the driver checks that could be made: a driver that does not answer does not reveal its modes."""
    pin = wanted_words(want)
    if seen is None:
        return {"driver.installed": (pin, None)}
    found = {f"driver.{field}": (pin, seen.get(field)) for field in ("installed", "loaded", "library")}
    found["driver.answer"] = ("an answer", "an answer")
    found["driver.mixed"] = ("none", "none")
    found["driver.nouveau"] = ("not loaded", "not loaded")
    if want.get("flavour") and seen.get("loaded"):
        found["driver.flavour"] = (want["flavour"], seen.get("flavour"))
    if want.get("mig") is False and not seen.get("error"):
        found["driver.mig"] = ("off", "off")
    return found


def _masked(value: Any) -> Any:
    """Remove credentials from URLs: a setting or a tool's error message may contain those of a proxy."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, Mapping):
        return {key: _masked(one) for key, one in value.items()}
    return [_masked(one) for one in value] if isinstance(value, (list, tuple)) else value


def _short(value: Any) -> str:
    """Render a value for a table line: nested values by field, digests shortened, the whole truncated."""
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} {_short(one)}" for key, one in value.items())
    elif isinstance(value, (list, tuple)):
        text = " ".join(_short(one) for one in value) or "none"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    else:
        text = "none" if value is None else _one_line(value)
        if len(text) == 64 and not text.strip("0123456789abcdef"):
            text = text[:12]
    return text if len(text) <= 200 else f"{text[:197]}..."


def _one_line(value: Any) -> str:
    return " ".join(str(value).split()) if value else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
