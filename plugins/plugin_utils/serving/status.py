# SPDX-License-Identifier: Apache-2.0
"""The serving status of a cluster from one look at each host, as `firstlight status` shows it. Pure functions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import SUPERVISOR_UNIT
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import SERVING, groups_of
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.left import RUNNING, unit_words
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.phase import OLD_SECONDS, age, parse_time
from ansible_collections.firstlight.cluster.plugins.module_utils.text import gigabytes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.targets import read_targets
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.replicas import fewer_replicas, read_replicas
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.service import service, service_words

SERVES, PARTLY, DOES_NOT, UNKNOWN = "serving", "partly serving", "not serving", "unknown"
STATUS = {SERVES: 0, PARTLY: 1, DOES_NOT: 1, UNKNOWN: 3}
"""Exit status of the command for each verdict."""
LONGEST = 400
"""Maximum length of an error message of a host or of ssh, in characters."""
HISTORY = 8
"""Number of latest events kept per group."""


def status_document(
    answers: Mapping[str, Any], head: str | None = None, at: str = "", targets: Any = None
) -> dict[str, Any]:
    """Build one document from the results of module `serving_status`, in the order of the inventory.

    A host without a valid answer is included with the reason. `head` comes from the inventory, so that no host can
    declare itself the head. `targets` are firstlight_targets; an invalid one is reported and otherwise ignored.
    """
    errors = PlanErrors()
    read = read_targets({"firstlight_targets": targets}, errors)
    document = _document({name: _understood(name, answers) for name in answers}, head, at, read)
    document["service"]["problems"] = [f"{one['found']}: {one['remedy']}" for one in errors.found]
    return document


def _understood(name: str, answers: Mapping[str, Any]) -> Any:
    """Return a host's answer if it can be processed on its own, so that one host cannot break the whole document."""
    try:
        lines(_document({**dict.fromkeys(answers), name: answers[name]}, name, ""))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return {"msg": "its answer is not one that a supervisor gives: check this host"}
    return answers[name]


def _document(
    answers: Mapping[str, Any], head: str | None, at: str, targets: Mapping[str, float] | None = None
) -> dict[str, Any]:
    nodes = {name: _node(name, answer) for name, answer in answers.items()}
    leader = head if head in nodes else _head(nodes, answers) or head or next(iter(nodes), "")
    state = _state(answers.get(leader))
    groups = _groups(answers, leader, state)
    for node in nodes.values():
        node["is_head"] = node["name"] == leader
        _add_what_the_head_hears(node, groups)
    verdict, why = _verdict(nodes, leader, groups)
    # The state of a supervisor that is not trusted any more does not describe the last minutes.
    told = [] if _distrust(nodes.get(leader) or {}) else [_load(group) for group in groups_of(state).values()]
    replicas = read_replicas(_look(answers.get(leader)).get("replicas"))
    fewer = fewer_replicas(replicas, nodes)
    if verdict == SERVES and fewer:
        verdict, why = PARTLY, fewer
    return {
        "at": at,
        "verdict": verdict,
        "why": why,
        "head": leader,
        "model": next((group["model"] for group in groups.values() if group["model"]), ""),
        "replicas": replicas,
        "groups": groups,
        "service": service(told, targets or {}),
        "nodes": list(nodes.values()),
    }


def exit_status(document: Mapping[str, Any]) -> int:
    """Return 0 if everything serves, 1 if not, and 3 if it is unknown."""
    return STATUS.get(str(document.get("verdict")), STATUS[UNKNOWN])


def _look(answer: Any) -> Mapping[str, Any]:
    found = answer.get("serving") if isinstance(answer, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _state(answer: Any) -> Mapping[str, Any]:
    found = _look(answer).get("state")
    return found if isinstance(found, Mapping) else {}


def why_silent(answer: Any) -> str:
    """Return why a host gave no answer, in one line."""
    told = answer if isinstance(answer, Mapping) else {}
    line = " ".join(str(told.get("msg") or "").split())
    if told.get("unreachable"):
        # ssh's own message is at the end of Ansible's.
        found = _shortened(line.rpartition("ssh: ")[2])
        return f"unreachable: {found}" if found else "unreachable"
    return _shortened(line) or "it was not queried"


def _shortened(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def _node(name: str, answer: Any) -> dict[str, Any]:
    look = _look(answer)
    if not look:
        return {
            "name": name,
            "reachable": False,
            "problems": [why_silent(answer)],
            "units": {},
            "drained": None,
            "memory": {},
        }
    units = look.get("units") if isinstance(look.get("units"), Mapping) else {}
    planned = [str(unit) for unit in look.get("planned_units") or ()]
    shown = dict.fromkeys([*planned, *(unit for unit, one in (units or {}).items() if one.get("active") in RUNNING)])
    shown.pop(SUPERVISOR_UNIT, None)
    problems = [f"{what}: {why}" for what, why in (look.get("problems") or {}).items()]
    problems += _supervisor_problems(look)
    return {
        "name": name,
        "reachable": True,
        "problems": problems,
        "supervisor": str(look.get("supervisor") or ""),
        "units": {unit: unit_words((units or {}).get(unit)) for unit in shown},
        "drained": look.get("drained"),
        "repin": bool(look.get("repin")),
        "memory": _memory(look.get("memory")),
    }


def _supervisor_problems(look: Mapping[str, Any]) -> list[str]:
    if not look.get("config"):
        return ["no supervisor is set up here: run site.yml"]
    if look.get("supervisor_active") not in RUNNING:
        return [f"its supervisor is {look.get('supervisor')}"]
    state = look.get("state")
    if not isinstance(state, Mapping):
        return ["its supervisor has written nothing yet"]
    seconds = age(state, parse_time(look.get("time")) or datetime.datetime.now(datetime.UTC))
    if seconds is None:
        return ["its supervisor does not say when it wrote its status: run site.yml, which installs one that does"]
    if seconds > OLD_SECONDS:
        return [f"its supervisor has written nothing for {seconds:.0f} s"]
    return [str(state["problem"])] if state.get("problem") else []


def _memory(memory: Any) -> dict[str, Any]:
    """Return used and total bytes: of the machine if it shares memory with the GPU, else of all GPUs."""
    if not isinstance(memory, Mapping):
        return {}
    parts = memory.get("gpus") if memory.get("kind") == "discrete" and memory.get("gpus") else [memory.get("machine")]
    listed = [part for part in parts or () if isinstance(part, Mapping) and part.get("total")]
    total, free = sum(int(one["total"]) for one in listed), sum(int(one.get("free") or 0) for one in listed)
    return {"kind": memory.get("kind"), "total": total, "used": total - free} if total else {}


def _head(nodes: Mapping[str, Any], answers: Mapping[str, Any]) -> str:
    """Return the host that the supervisors take for their head.

    With ray-serve a worker's supervisor names itself as head and requests no completions: it does not count.
    """
    for name in nodes:
        config = _look(answers[name]).get("config") or {}
        found = str(config.get("head") or "")
        asks = any(one.get("url") for one in (config.get("groups") or {}).values() if isinstance(one, Mapping))
        if found in nodes and (asks or found != name):
            return found
    return ""


def _groups(answers: Mapping[str, Any], head: str, state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each group as the head's supervisor reports it; one that is only configured has an unknown phase."""
    configured = (_look(answers.get(head)).get("config") or {}).get("groups") or {}
    told = groups_of(state)
    groups = {}
    for name in dict.fromkeys([*configured, *told]):
        group, setup = told.get(name, {}), configured.get(name) or {}
        probe = group.get("probe") if isinstance(group.get("probe"), Mapping) else {}
        history = [one for one in group.get("history") or () if isinstance(one, Mapping)]
        groups[name] = {
            "phase": str(group.get("phase") or "unknown"),
            "why": str(group.get("why") or ""),
            "since": group.get("since"),
            "epoch": str(group.get("epoch") or ""),
            "attempts": group.get("attempts") or 0,
            "next_start": group.get("next_start"),
            "forgotten_at": group.get("forgotten_at"),
            "missing": dict(group.get("missing") or {}),
            "model": str((probe or {}).get("model") or setup.get("model") or ""),
            "url": str(setup.get("url") or ""),
            "tensor_parallel": setup.get("tensor_parallel"),
            "nodes": list(setup.get("nodes") or group.get("nodes") or ()),
            "heard": dict(group.get("nodes") or {}),
            "probe": dict(probe or {}),
            "load": {key: value for key, value in _load(group).items() if key != "recent"},
            "loading": dict(group.get("loading") or {}),
            "started": dict(group.get("started") or {}),
            "history": history[-HISTORY:],
        }
    return groups


def _load(group: Mapping[str, Any]) -> dict[str, Any]:
    return dict(group.get("load") or {})


def _add_what_the_head_hears(node: dict[str, Any], groups: Mapping[str, Mapping[str, Any]]) -> None:
    """Add what the head's supervisor knows about a node, the only information about one that does not answer us."""
    heard = [one for group in groups.values() if isinstance(one := group["heard"].get(node["name"]), Mapping)]
    times = [float(one["heard_seconds"]) for one in heard if isinstance(one.get("heard_seconds"), (int, float))]
    node["heard_seconds"] = max(times) if times else None
    problems = list(dict.fromkeys(str(problem) for one in heard for problem in one.get("problems") or ()))
    missing = [str(group["missing"][node["name"]]) for group in groups.values() if node["name"] in group["missing"]]
    node["waiting"] = list(dict.fromkeys([*missing, *problems]))
    if not node["reachable"]:
        node["units"] = {str(unit): str(words) for one in heard for unit, words in (one.get("units") or {}).items()}


def _verdict(nodes: Mapping[str, Any], head: str, groups: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    leader = nodes.get(head)
    if leader is None or not leader["reachable"]:
        why = "; ".join(leader["problems"]) if leader else "it is not in the inventory"
        return UNKNOWN, f"the head {head} could not be queried ({why})" if head else "there is no host to query"
    supervisor = _distrust(leader)
    if supervisor:
        # A supervisor that gave up has exited; its last state says why.
        reasons = [f"{name}: {group['why']}" for name, group in groups.items() if group["phase"] == "failed"]
        return DOES_NOT, f"{head}: {supervisor[0]}" + (f" ({'; '.join(reasons)})" if reasons else "")
    waiting = {name: group for name, group in groups.items() if group["phase"] != SERVING}
    if groups and not waiting:
        return SERVES, ""
    if not groups:
        return DOES_NOT, "no group is set up: run site.yml"
    told = [
        f"{name} is {group['phase']}" + (f": {group['why']}" if group["why"] else "") for name, group in waiting.items()
    ]
    served = len(groups) - len(waiting)
    more = f"; {served} of {len(groups)} groups serve" if served else ""
    return DOES_NOT, "; ".join(told) + more


def _distrust(leader: Mapping[str, Any]) -> list[str]:
    """Return why the recorded state of the head's supervisor is not current."""
    return [one for one in leader.get("problems", ()) if one.startswith(("its supervisor", "no supervisor"))]


def loading_words(group: Mapping[str, Any], at: str) -> str:
    """Describe the progress of a start: bytes read of bytes expected, and the time since the last progress."""
    loading = group.get("loading") or {}
    read, expected = loading.get("bytes_read"), loading.get("expected_bytes")
    if not isinstance(read, int):
        return ""
    # An engine may read more than its ranks keep: other ranks' parts of a file, or a file twice.
    of_all = f" of {gigabytes(expected)} of weights" if isinstance(expected, int) and expected else ""
    told = [f"{gigabytes(read)}{of_all} read"]
    quiet, left = _seconds(loading.get("progress_at"), at), _seconds(at, loading.get("limit_at"))
    if quiet is not None:
        words = str(loading.get("progress") or "")
        told.append(f"last progress {quiet:.0f} s ago" + (f" ({words})" if words else ""))
    if left is not None:
        told.append(f"{left / 60:.0f} min left of its limit")
    return ", ".join(told)


def started_words(group: Mapping[str, Any]) -> str:
    """Describe the start of what now serves; empty if its supervisor did not observe it."""
    started = group.get("started") or {}
    seconds, took, read = (started.get(key) for key in ("seconds", "read_seconds", "bytes_read"))
    if not isinstance(seconds, (int, float)):
        return ""
    told = f"ready {seconds:.0f} s after its start"
    if isinstance(took, (int, float)) and isinstance(read, int) and took > 0 and read:
        told += f"; {gigabytes(read)} were read in {took:.0f} s"
    return told


def _seconds(earlier: Any, later: Any) -> float | None:
    start, end = parse_time(earlier), parse_time(later)
    return None if start is None or end is None else max(0.0, (end - start).total_seconds())


def lines(document: Mapping[str, Any]) -> list[str]:
    """Render the document as a few lines for the playbook's output."""
    told = [f"{document['verdict']}" + (f": {document['why']}" if document["why"] else "")]
    for name, group in document["groups"].items():
        told.append(f"group {name}: {group['phase']}" + (f", model {group['model']}" if group["model"] else ""))
        more = (loading_words(group, str(document.get("at") or "")), started_words(group))
        told += [f"group {name}: {words}" for words in more if words]
    found = document["service"]
    told += [service_words(found)] if found["window_s"] else []
    told += [f"warning: {one}" for one in (*found["missed"], *found.get("problems", ()))]
    for node in document["nodes"]:
        units = ", ".join(f"{unit} {words}" for unit, words in node["units"].items()) or "no units"
        drained = "; out of service" if node["drained"] is not None else ""
        told.append(f"{node['name']}: {units}{drained}" + "".join(f"; {one}" for one in node["problems"]))
    return told
