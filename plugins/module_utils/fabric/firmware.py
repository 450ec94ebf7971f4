# SPDX-License-Identifier: Apache-2.0
"""The firmware that a fabric was tested with, and what has changed since then.

Firmware updates bypass apt: a capsule that the machine applies at its next boot, fwupd, a vendor's own updater. They
reset ports (MTU), rewire PCIe and change throughput, so an earlier test of the fabric no longer applies.

    firmware  {path: {}}   the record at this path exists, and the host still has the firmware listed in it

An observation has, for each path: `exists`, `at` (when it was recorded), `recorded` and `now` (versions by component:
"bios", "nic.PORT", "vbios.BUS"), and `error`. A version that is unknown, then or now, is never a difference. Everything
here is pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..state.vocabulary import UNKNOWN, Difference, difference, register

KIND = "firmware"
BIOS, NIC, VBIOS = "bios", "nic", "vbios"
TESTED = "tested"
"""Key next to the expected versions: when the fabric was tested with them."""

_PACKAGE_ID = re.compile(r"\s*\([^()]*\)\s*$")
_VBIOS = re.compile(r"[0-9a-f]{1,4}(?:\.[0-9a-f]{1,4}){2,6}", re.IGNORECASE)
_ETHTOOL = re.compile(r"^firmware-version:[ \t]*(?P<version>\S.*)$", re.MULTILINE)
_VIDEO_BIOS = re.compile(r"^Video BIOS:[ \t]*(?P<version>\S+)", re.MULTILINE)


def firmware_path(record: str) -> str:
    """Return the path of the firmware record that belongs to this record of a connectivity test."""
    return f"{record.removesuffix('.connectivity')}.firmware"


# --- versions --------------------------------------------------------------------------------------------------------
def bios_version(version: str | None, date: str | None) -> str | None:
    """Combine DMI's version and date of the BIOS, since some vendors change only one of them."""
    name, day = (version or "").strip(), (date or "").strip()
    return f"{name} ({day})" if name and day else name or day or None


def nic_version(text: str | None) -> str | None:
    """Return a NIC's version without the board id: sysfs has only the version, ethtool has both."""
    told = _PACKAGE_ID.sub("", (text or "").strip())
    return None if told in ("", "N/A") else told


def ethtool_version(text: str) -> str | None:
    """Parse the version from `ethtool -i PORT`; None if the driver reports none."""
    found = _ETHTOOL.search(text)
    return nic_version(found["version"]) if found else None


def vbios_version(text: str | None) -> str | None:
    """Parse /proc/driver/nvidia/gpus/BUS/information, which shows question marks until the GPU is first used."""
    found = _VIDEO_BIOS.search(text or "")
    return found["version"].lower() if found and _VBIOS.fullmatch(found["version"]) else None


def components(bios: str | None, nics: Mapping[str, str | None], gpus: Mapping[str, str | None]) -> dict[str, str]:
    """Return the known versions by component."""
    named = {
        BIOS: bios,
        **{f"{NIC}.{port}": version for port, version in nics.items()},
        **{f"{VBIOS}.{bus}": version for bus, version in gpus.items()},
    }
    return {name: version for name, version in named.items() if version}


def ports_of(versions: Iterable[str]) -> list[str]:
    """Return the ports among these components."""
    return [name.partition(".")[2] for name in versions if name.partition(".")[0] == NIC]


# --- the record ------------------------------------------------------------------------------------------------------
def record_text(versions: Mapping[str, str], at: str) -> str:
    """Render the record that a host keeps next to that of its connectivity test."""
    return json.dumps({"at": at, "versions": dict(versions)}, indent=2, sort_keys=True) + "\n"


def read_record(text: str | None) -> dict[str, Any]:
    """Parse a record into the form of an observation, without the present versions."""
    found: dict[str, Any] = {"exists": text is not None, "at": None, "recorded": {}, "error": None}
    if text is None:
        return found
    try:
        record = json.loads(text)
        versions = {str(name): str(version) for name, version in record["versions"].items()}
        return {**found, "at": str(record["at"]), "recorded": versions}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return {**found, "error": f"it is not a firmware record ({type(error).__name__})"}


def kept_text(text: str | None, versions: Mapping[str, str], at: str) -> str:
    """Return the record after a test that passed; with unchanged firmware it keeps the time it was first tested at."""
    record = read_record(text)
    if text is not None and not record["error"] and record["recorded"] == dict(versions):
        return text
    return record_text(versions, at)


# --- the comparison --------------------------------------------------------------------------------------------------
def changes(observed: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the components whose version has changed, with both versions."""
    recorded, now = observed.get("recorded") or {}, observed.get("now") or {}
    return {name: (before, now[name]) for name, before in recorded.items() if name in now and now[name] != before}


def firmware_differences(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """Return one difference per record: it is missing, it is unreadable, or the host's firmware has changed since."""
    found = []
    for path in desired:
        have = observed.get(path)
        if have is None:
            found.append(difference(KIND, path, {"exists": True}, UNKNOWN))
        elif have.get("error"):
            found.append(difference(KIND, path, {"exists": True}, {"error": have["error"]}))
        elif not have.get("exists"):
            found.append(difference(KIND, path, {"exists": True}, {"exists": False}))
        elif moved := changes(have):
            expected = {name: before for name, (before, _) in moved.items()}
            found.append(
                difference(
                    KIND, path, {**expected, TESTED: have["at"]}, {name: now for name, (_, now) in moved.items()}
                )
            )
    return found


# --- messages --------------------------------------------------------------------------------------------------------
def component_words(name: str) -> str:
    """Return the display name of a component."""
    kind, _, which = name.partition(".")
    if kind == NIC:
        return f"the firmware of the NIC behind {which}"
    return f"the VBIOS of GPU {which}" if kind == VBIOS else "the BIOS"


def _moved_words(moved: Mapping[str, tuple[str, str]], at: Any) -> str:
    told = [f"{component_words(name)} changed from {before} to {now}" for name, (before, now) in moved.items()]
    return f"{' and '.join(told)} since the fabric was tested on {at}"


def firmware_sentence(key: str, expected: Any, observed: Any) -> str:
    """Describe a difference in one line."""
    if observed == UNKNOWN:
        return f"the firmware of the host is {UNKNOWN}, expected versions to compare with {key}"
    if "error" in observed:
        return f"{key} cannot be used ({observed['error']}), expected the firmware that the fabric was tested with"
    if "exists" in observed:
        return f"the firmware that the fabric was tested with is not on record, expected {key}"
    moved = {name: (expected[name], now) for name, now in observed.items()}
    return f"{_moved_words(moved, expected[TESTED])}, expected a connectivity test with the present firmware"


register(named={KIND: firmware_differences}, sentences={KIND: firmware_sentence})


def firmware_remedy(item: Mapping[str, Any]) -> str | None:
    """Return what to do about a difference of this kind; None for any other."""
    if item["kind"] != KIND:
        return None
    return "run site.yml, which tests the fabric again and records the tested firmware"


def explanation(record_id: str, observation: Mapping[str, Any]) -> str | None:
    """Explain a port's difference by a firmware change that affects it; None if there was none."""
    kind, _, port = record_id.partition(".")
    if kind not in ("link", "rdma"):
        return None
    for path, have in (observation.get(KIND) or {}).items():
        moved = {name: pair for name, pair in changes(have).items() if name in (f"{NIC}.{port}", BIOS)}
        if moved:
            words = _moved_words(moved, have["at"])
            return f"{words} (see {KIND}.{path}): a firmware update resets a port's MTU and may rewire its PCIe lanes"
    return None


def cause(expected: Any, history: Mapping[str, Any] | None) -> str | None:
    """Describe what changed the firmware, as far as fwupd's own history shows."""
    if history is None or not isinstance(expected, Mapping) or TESTED not in expected:
        return None
    since = str(expected[TESTED])
    events = [one for one in history.get("fwupd") or [] if str(one.get("at") or "") >= since]
    booted = f"; the host booted at {history['boot']}" if history.get("boot") else ""
    if not events:
        return (
            "fwupd's history names no update since then: a capsule, the machine's BMC or setup, or the vendor's own "
            f"tool installed it{booted}"
        )
    told = [f"{one['device']} from {one['before']} to {one['after']} at {one['at']} ({one['state']})" for one in events]
    return f"fwupd updated {', '.join(told)}{booted}"
