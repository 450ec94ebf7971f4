# SPDX-License-Identifier: Apache-2.0
"""Evaluate a host before the first change: all problems at once, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import RAY_UNIT, SERVER_UNITS
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import UNKNOWN

from .differences import Difference, differences, explain

_GPU_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        "driver/library version mismatch",
        "the driver on disk is not the one in the kernel: reboot the host to load the installed driver",
    ),
    (
        "couldn't communicate with the nvidia driver",
        (
            "the kernel module is not loaded: reboot the host, and if that does not help check "
            "`dkms status` and whether Secure Boot refuses the module"
        ),
    ),
    (
        "unable to determine the device handle",
        "a GPU has dropped off the bus: look for Xid lines in `dmesg`, then power the host off and on",
    ),
    (
        "no devices were found",
        "check with `lspci -d 10de:` that the GPUs are seated, then reboot",
    ),
    ("is not installed", "install the NVIDIA driver of the stack release on the host"),
    ("no answer within", "the driver hangs: look for Xid lines in `dmesg`, then reboot the host"),
)
"""Error messages of nvidia-smi in lower case, with their remedies; the first match counts."""

_GPU_FALLBACK = "run `nvidia-smi` on the host, and make it answer before continuing"


def problems(observation: Mapping[str, Any], expectations: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each problem that would make the bring-up fail; empty if changes may start.

    `expectations` is the desired state of role preflight, `observation` the result of `observe` for it.
    """
    errors = observation.get("errors") or {}
    wanted = dict(expectations)
    own = _unfinished(observation.get("facts") or {})
    if (wanted.get("gpus") or {}).get("by_bus") and (observation.get("gpus") or {}).get("error"):
        own += _on_the_bus(wanted.pop("gpus"), observation.get("driver") or {})
    found = differences(wanted, observation)
    return own + [_problem(item, sentence, errors) for item, sentence in zip(found, explain(found), strict=True)]


def driver_in_use(pending: Iterable[Difference], observation: Mapping[str, Any], policy: str) -> list[str]:
    """Return why the driver must not be installed now: its packages would change while something serves with it.

    `pending` has the host's differences from role nvidia_driver. In a first bring-up nothing serves yet; holds, files,
    units and kernel headers do not change the driver.
    """
    units = observation.get("units") or {}
    serving = [name for name in (*SERVER_UNITS, RAY_UNIT) if _runs(units.get(name) or {})]
    moving = [
        one
        for one in pending
        if (one["kind"] == "package" and not str(one["key"]).startswith("linux-headers-"))
        or (one["kind"] == "driver" and one["key"] == "installed")
    ]
    if policy != "install" or not serving or not moving:
        return []
    told = explain(moving)
    more = f" and {len(told) - 3} more" if len(told) > 3 else ""
    return [f"{'; '.join(told[:3])}{more}, while {' and '.join(serving)} {'run' if len(serving) > 1 else 'runs'}"]


def _runs(unit: Mapping[str, Any]) -> bool:
    return bool(unit.get("active")) or str(unit.get("sub") or "").startswith("start")


def _unfinished(facts: Mapping[str, Any]) -> list[str]:
    """Return a problem if a re-pin is under way on the host, or if it is out of service."""
    if facts.get("repin"):
        return [f"it is in the middle of a re-pin (state {facts['repin']}): finish it with playbooks/repin.yml"]
    if facts.get("drained"):
        place = "/var/lib/firstlight/drained"
        return [f"it was taken out of service ({place} says by whom): finish that work, or remove {place}"]
    return []


def _on_the_bus(expected: Mapping[str, Any], driver: Mapping[str, Any]) -> list[str]:
    """Check the number of GPUs on the PCI bus of a host without a driver."""
    found = driver.get("gpus", UNKNOWN)
    if "count" not in expected or found == expected["count"]:
        return []
    remedy = _gpu_remedy({"count": expected["count"]}, {"count": 0 if found == UNKNOWN else found})
    return [f"NVIDIA GPUs on the PCI bus are {found}, expected {expected['count']}: {remedy}"]


def _problem(item: Difference, sentence: str, errors: Mapping[str, Any]) -> str:
    if item["kind"] == "rail" and item["observed"] != UNKNOWN:
        return sentence  # it includes the remedy
    remedy = _remedy(item)
    reason = errors.get(_PROBES.get(item["kind"], ""))
    if reason and str(reason) not in sentence:
        sentence = f"{sentence} ({reason})"
    return f"{sentence}: {remedy}"


_PROBES = {"link": "links", "rail": "fabric", "gpus": "gpus", "distribution": "facts", "disk_free": "facts"}
"""The probe of the observation for each kind of difference."""


def _remedy(item: Difference) -> str:
    kind, key, observed = item["kind"], item["key"], item["observed"]
    if kind == "gpus":
        return _gpu_remedy(item["expected"], observed)
    if kind == "link":
        return (
            f"list the host's ports with `ip -br link` and correct {key} in firstlight_fabric.rails, "
            "or fit the network card it belongs to"
        )
    if kind == "disk_free":
        if observed == UNKNOWN:
            return f"the free space at {key} could not be read: check that its file system is mounted"
        return f"free space on the file system of {key}, or choose a directory on a larger one"
    if kind == "distribution":
        return (
            "install a supported release (DGX OS counts as the Ubuntu it is built on), "
            "or add this one to preflight_distributions once it has been tried"
        )
    return "correct it on the host"


def _gpu_remedy(expected: Mapping[str, Any], observed: Mapping[str, Any]) -> str:
    if "error" in observed:
        said = str(observed["error"]).lower()
        return next((remedy for words, remedy in _GPU_REMEDIES if words in said), _GPU_FALLBACK)
    names = set(observed.get("names") or [])
    if "name" in expected and names and names != {expected["name"]}:
        return "correct firstlight_hardware to the profile of these GPUs, or the inventory if the host is wrong"
    if observed.get("count", 0) < expected.get("count", 0):
        return (
            "look for the missing GPU with `lspci -d 10de:` and for Xid lines in `dmesg`, "
            "then power the host off and on"
        )
    return "correct firstlight_hardware to a profile with this number of GPUs"
