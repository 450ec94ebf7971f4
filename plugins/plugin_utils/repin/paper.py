# SPDX-License-Identifier: Apache-2.0
"""Preview a re-pin without contacting hosts: what the plan for another stack changes on every host, in which order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.evaluate import batches
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.stack_set import SET_ROLES, stack_set

STEPS = (
    "read every host; an unhealthy one is left alone",
    "fetch the .debs of both sets, rehearse both ways, pull the image; nothing is stopped yet",
    "drain: stop the server and Ray, and keep them down over reboots",
    "move the batches in turn: one apt transaction, a reboot where the loaded module differs, the bring-up's own gates",
    "serve again, and request a completion",
    "on a failed gate: previous set, reboot, gates, serve as before, and stop",
)


def held_back(plan: Mapping[str, Any]) -> list[str]:
    """Return the roles of a host's plan that only verify what is installed."""
    driver = (plan.get("roles") or {}).get("nvidia_driver") or {}
    return ["nvidia_driver"] if driver.get("nvidia_driver_policy") == "verify-and-hold" else []


def on_paper(before: ClusterPlan, after: ClusterPlan, stack: str) -> dict[str, Any]:
    """Return the document that `firstlight repin --plan --json` prints."""
    names = list(after.hosts)
    previous = before.cluster.get("stack")
    order = batches(names) if names and not after.errors else []
    return {
        "stack": stack,
        "previous_stack": previous,
        "errors": list(after.errors),
        "missing_inputs": list(after.missing_inputs),
        "batches": order,
        "steps": list(STEPS),
        "hosts": {}
        if after.errors
        else {name: _host(before.hosts.get(name) or {}, after.hosts[name]) for name in names},
    }


def _host(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    old, new = _packages(before), _packages(after)
    changes = [
        {"name": name, "from": old.get(name), "to": new.get(name)}
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    driver = {"from": _driver(before), "to": _driver(after)}
    return {
        "packages": changes,
        "driver": driver,
        # Only the host knows which driver is loaded, and the version of a factory driver.
        "reboot": driver["from"] != driver["to"] and not held_back(after),
        "image": {"from": _image(before), "to": _image(after)},
        "left_as_it_is": held_back(after),
        "on_host": [] if held_back(after) else _on_host(before, after),
    }


def _on_host(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return driver packages that change only on some hosts, depending on each host's state."""
    old, new = _decided(before), _decided(after)
    found = []
    for what in dict.fromkeys([*old, *new]):
        was, wanted = old.get(what, {}).get("packages", {}), new.get(what, {}).get("packages", {})
        names = sorted({*was, *wanted})
        changes = [{"name": name, "from": was.get(name), "to": wanted.get(name)} for name in names]
        if was != wanted or (changes and _driver(before) != _driver(after)):
            found.append({"what": what, "when": (new.get(what) or old[what])["when"], "packages": changes})
    return found


def _decided(plan: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    listed = (plan.get("host") or {}).get("on_host") or ()
    return {one["what"]: one for one in listed if one["role"] in SET_ROLES and one["packages"]}


def _packages(plan: Mapping[str, Any]) -> dict[str, str]:
    packages = stack_set(plan.get("desired") or {}, held_back(plan))["packages"]
    return {name: version for name, version in packages.items() if version is not None}


def _driver(plan: Mapping[str, Any]) -> str | None:
    driver = ((plan.get("desired") or {}).get("nvidia_driver") or {}).get("driver") or {}
    version = driver.get("version")
    return str(version) if version else None


def _image(plan: Mapping[str, Any]) -> str | None:
    image = ((plan.get("roles") or {}).get("inference_image") or {}).get("inference_image_reference")
    return str(image) if image else None
