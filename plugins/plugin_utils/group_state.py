# SPDX-License-Identifier: Apache-2.0
"""Evaluate the state of a group of hosts from the facts that playbooks and roles set for each host. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences_by_role
from ansible_collections.firstlight.cluster.plugins.plugin_utils.connectivity import matrix
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.burn_in_cluster import evaluate_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.phases import (
    STEPS,
    has_step,
    host_steps,
    preflight_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.rebuild import rebuild_notes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.attendance import (
    attendance_message,
    missing_by_rack,
    rack_groups,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin import decision, report
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin import group as repin
from ansible_collections.firstlight.cluster.plugins.plugin_utils.scale import (
    membership as members,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.scale import (
    removal,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.scale import (
    replacement as replacements,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.scale.chosen_hosts import chosen
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving import logs, status, switch
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.work import serving_work

from . import exposed_roles
from .fan_out import fan_out

SERVING_FACTS = {
    "plan": "firstlight_plan",
    "pending": "firstlight_pending",
    "runtime_restarted": "container_runtime_restarted",
    "ray_restarted": "ray_cluster_restarted",
    "venv_switched": "engine_venv_switched",
    "secret_differs": "serve_secret_differs",
    "seen": "serving_seen",
}
WEIGHTS_FACTS = {"plan": "firstlight_plan", "pending": "firstlight_pending"}
ASKS = {"full": "firstlight_full", "rehash": "weights_rehash"}
STEP_FACTS = {"steps": "firstlight_steps"}
SECRETS = {"token": "ray_cluster_token", "key": "inference_server_api_key"}
SWITCH_FACTS = {
    "present": "switch_present_plan",
    "wanted": "switch_wanted_plan",
    "pending": "firstlight_pending",
    "seen": "switch_seen",
    "new": "switch_new",
    "old": "switch_old",
}


@dataclass(frozen=True)
class Run:
    """What Ansible knows about the hosts of a run."""

    hostvars: Mapping[str, Mapping[str, Any]]
    host: str
    """The host for which the state is evaluated."""
    groups: Mapping[str, Sequence[str]]
    playing: Sequence[str]
    """All hosts of the play."""
    answering: Sequence[str]
    """Hosts of the play that have neither failed nor become unreachable."""
    checking: bool = False
    """Whether the run is in check mode."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Variables given to the play itself, such as `vars` of import_playbook, which hostvars do not include."""

    @classmethod
    def of(cls, variables: Mapping[str, Any]) -> Run:
        """Create the run from a lookup's variables."""
        groups = variables.get("groups") or {}
        return cls(
            hostvars=variables.get("hostvars") or {},
            host=str(variables.get("inventory_hostname")),
            groups={str(name): [str(host) for host in hosts] for name, hosts in groups.items()},
            playing=[str(name) for name in variables.get("ansible_play_hosts_all") or ()],
            answering=[str(name) for name in variables.get("ansible_play_hosts") or ()],
            checking=bool(variables.get("ansible_check_mode")),
            own={name: variables[name] for name in (*ASKS.values(), *SECRETS.values()) if name in variables},
        )

    def facts(self, names: Mapping[str, str], hosts: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return the facts that are set for each host, under their short names."""
        found = {}
        for host in self.groups.get("cluster") or () if hosts is None else hosts:
            variables = self.hostvars[host]
            found[host] = {short: variables[fact] for short, fact in names.items() if fact in variables}
        return found

    def answers(self, register: str) -> dict[str, Any]:
        """Return the registered result of each host of the play; empty for a host that was not asked."""
        return {host: self.hostvars[host].get(register) or {} for host in self.playing}


Options = Mapping[str, Any]


def _compared(run: Run, options: Options) -> dict[str, Any]:
    own = run.hostvars[run.host][options["register"]]
    plan, head = own["plan"], str(own["plan"]["cluster"]["head"])
    # Secrets must equal the head's. A run limited to other hosts has no observation of the head, and reports that.
    peers = {head: (run.hostvars[head].get(options["register"]) or {}).get("observation") or {}}
    observation, pending = own["observation"], differences_by_role(own["desired"], own["observation"], peers)
    full = any(_is_true(given.get(ASKS["full"])) for given in (run.own, run.hostvars[run.host]))
    return {
        **{name: value for role in plan["roles"].values() for name, value in (role or {}).items()},
        **preflight_variables(plan, pending, observation),
        "firstlight_plan": plan,
        "firstlight_observation": observation,
        "firstlight_pending": pending,
        "firstlight_steps": host_steps(plan, pending, observation, full=full, checking=run.checking),
    }


def _is_true(value: object) -> bool:
    """Return whether an operator's variable is true; `-e firstlight_full=true` makes it a string."""
    return str(value).lower() in ("true", "yes", "on", "1", "y", "t")


def _repin(run: Run, _: Options) -> dict[str, Any]:
    return repin.group_state(repin.with_silent(run.facts(repin.FACTS), run.answering))


def _repin_decision(run: Run, options: Options) -> dict[str, Any]:
    facts = run.facts(decision.FACTS, [run.host])[run.host]
    return decision.host_decision(facts, max_reboots=options["max_reboots"], serves=options["serves"])


def _repin_report(run: Run, _: Options) -> dict[str, Any]:
    own = run.hostvars[run.host]
    cluster, before = own["firstlight_plan"]["cluster"], own["repin_present_plan"]["cluster"]
    facts = repin.with_silent(run.facts(repin.FACTS), run.answering)
    document = report.report(str(cluster["stack"]), str(before["stack"]), facts, str(cluster["head"]))
    return {"document": document, "lines": report.lines(document)}


def _switch(run: Run, options: Options) -> dict[str, Any]:
    return switch.group_state(run.facts(SWITCH_FACTS), run.answering, options["named"])


def _members(run: Run, options: Options) -> dict[str, Any]:
    facts = run.facts({"plan": "firstlight_plan", "pending": "firstlight_pending"})
    return members.evaluate(facts, options["newcomers"], restart=options["restart"])


def _named(run: Run, options: Options) -> dict[str, Any]:
    return chosen(options["nodes"], run.groups, single=options["single"])


def _replacement(run: Run, _: Options) -> dict[str, Any]:
    own = run.hostvars[run.host]
    answer, place = own["__membership_machine"], own.get("firstlight_rack") or {}
    address, inventory = str(own.get("ansible_host") or run.host), str(own.get("inventory_dir") or "")
    return {
        "problem": replacements.replacement_problem(run.host, answer, place, address, inventory),
        "message": replacements.replacement_message(run.host, answer, place),
    }


def _removal(run: Run, options: Options) -> dict[str, Any]:
    own, node = run.hostvars[run.host], options["node"]
    present, rest = own["__remove_present"]["plans"], own["__remove_rest"]["plans"]
    # hostvars.get() would return an undefined value for a host that is no longer in the inventory.
    known = node in run.hostvars
    gone = run.hostvars[node] if known else {}
    left = (gone.get("__remove_seen") or {}).get("left") or []
    return {
        "problems": removal.removal_problems(present, rest),
        "stops": removal.stops(present.get(node) or {}, left),
        "lines": removal.inventory_words(node, gone.get("firstlight_rack") or {}, options["serving"]),
    }


def _exposed(run: Run, _: Options) -> dict[str, Any]:
    return {"roles": exposed_roles.found(run.hostvars[run.host]["__teardown_seen"]["observation"])}


def _require_all_hosts(run: Run, options: Options) -> dict[str, Any]:
    racks = rack_groups(run.groups)
    if len(racks) < 2:
        racks = {}
    elif options["phase"]:
        # With several racks, no host depends on another until serving starts.
        return {"missing": {}, "message": ""}
    missing = missing_by_rack(run.playing, run.answering, racks)
    return {"missing": missing, "message": attendance_message(run.playing, missing, options["phase"])}


def _serving(run: Run, options: Options) -> dict[str, Any]:
    facts = run.facts(SERVING_FACTS)
    head = next((one for one in facts.values() if ((one.get("plan") or {}).get("host") or {}).get("is_head")), {})
    plan, seen = head.get("plan") or {}, (head.get("seen") or {}).get("serving") or {}
    return {
        **serving_work(facts, full=options["full"]),
        "rebuild": rebuild_notes(seen, plan),
        "other_model": switch.other_model(seen, plan),
    }


def _status(run: Run, options: Options) -> dict[str, Any]:
    head = str(next(iter(run.groups.get("head") or ()), ""))
    document = status.status_document(run.answers("status_answer"), head, options["at"], options["targets"])
    return {**document, "lines": status.lines(document)}


def _logs(run: Run, _: Options) -> dict[str, Any]:
    return logs.merged_logs(run.answers("logs_answer"))


def _weights(run: Run, options: Options) -> dict[str, Any]:
    return _fan_out(run.facts(WEIGHTS_FACTS, run.playing), full=options["full"])


def _fan_out(facts: Mapping[str, Mapping[str, Any]], *, full: bool) -> dict[str, Any]:
    """Decide which hosts of the run fetch the model and which share it, by the plan of any of them."""
    pending = {host: (one.get("pending") or {}).get("model_weights") or [] for host, one in facts.items()}
    plan = next(one["plan"] for one in facts.values() if "plan" in one)
    role = plan["roles"].get("model_weights")
    if role is None:
        return fan_out("", [], {})
    return fan_out(str(plan["cluster"]["head"]), list(facts), pending, full, bool(role["model_weights_share_address"]))


def _gpus(run: Run, options: Options) -> dict[str, Any]:
    facts = run.facts({"accepted": "gpu_verify_accepted"}, run.answering)
    results = {host: one["accepted"] for host, one in facts.items() if one}
    return evaluate_cluster(results, options["power"], options["accept"])


def _fabric(run: Run, options: Options) -> dict[str, Any]:
    facts = run.facts({"part": "__fabric_network_part"}, run.answering)
    parts = {host: one["part"] for host, one in facts.items()}
    return matrix.evaluate(options["members"], parts, options["minimum_bandwidth"])


SUBJECTS: dict[str, Callable[[Run, Options], dict[str, Any]]] = {
    "compared": _compared,
    "repin": _repin,
    "repin_decision": _repin_decision,
    "repin_report": _repin_report,
    "switch": _switch,
    "members": _members,
    "named": _named,
    "replacement": _replacement,
    "removal": _removal,
    "exposed": _exposed,
    "require_all_hosts": _require_all_hosts,
    "serving": _serving,
    "status": _status,
    "logs": _logs,
    "weights": _weights,
    "gpus": _gpus,
    "fabric": _fabric,
}


def is_busy(run: Run, phase: str) -> bool | None:
    """Return whether any host has work in a phase of a bring-up; None if no host has a plan.

    Nothing is known about the hosts before the first play of a run, or when plays are only listed. Reading a host's
    plan costs more than everything else here, so phases that consist of roles do without.
    """
    hosts = [host for host in run.groups.get("cluster") or () if host in run.playing] if run.hostvars else []
    planned = next((host for host in hosts if "firstlight_plan" in run.hostvars[host]), None)
    if planned is None:
        return None
    if phase in STEPS:
        return has_step([one.get("steps") or () for one in run.facts(STEP_FACTS, hosts).values()], phase)
    asked = [{short: run.own.get(name) for short, name in ASKS.items()}, *run.facts(ASKS, hosts).values()]
    full, rehash = (any(_is_true(one.get(short)) for one in asked) for short in ASKS)
    if phase == "weights":
        facts = run.facts({"pending": WEIGHTS_FACTS["pending"]}, hosts)
        facts[planned]["plan"] = run.hostvars[planned]["firstlight_plan"]
        weights = _fan_out(facts, full=full or rehash)
        return bool(weights["fetches"] or weights["receives"])
    serving = serving_work(run.facts(SERVING_FACTS, hosts), full=full)
    return {"ray": serving["stop"] or serving["ray"] or _is_given_secret(run, hosts), "serve": serving["any"]}[phase]


def _is_given_secret(run: Run, hosts: Sequence[str]) -> bool:
    """Return whether the operator supplied a secret: an observation cannot show whether it is the one in the file."""
    heads = run.facts(SECRETS, [host for host in run.groups.get("head") or () if host in hosts])
    given = {short: run.own.get(name) for short, name in SECRETS.items()} if heads else {}
    return any(any(one.values()) for one in (given, *heads.values()))
