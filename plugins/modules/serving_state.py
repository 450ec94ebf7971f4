#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `serving_state`: take a host out of service, give it back, restart what serves, and take it off."""

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_state
short_description: Take a host out of service, return it, restart what serves, or remove it from the host
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - With O(state=drained) sets the marker C(/var/lib/firstlight/drained), for which the supervisor stops everything of
    its groups, on this host and on all that serve with it. It holds over reboots. What no supervisor stops is stopped
    here, a balancer and the units of a host without a running supervisor.
  - With O(state=uncordoned) takes it away, and starts the supervisor and the balancer where they are installed and do
    not run. The supervisor of the head then starts the group in order. A host in the middle of a re-pin is refused.
  - A host that is out of service already stays so; the first reason is kept unless a new one is given. The marker of a
    re-pin is never changed.
  - With O(state=restarted) tells the supervisor of the head to stop everything of its groups on all nodes and to start
    it again in order. A supervisor that has given up is started, and what it remembers of failed starts is forgotten.
  - With O(state=started) starts supervisor and balancer of this host where they do not run, and leaves everything else
    alone.
  - With O(state=absent) stops and removes the units of Ray, servers, balancer and supervisor, their containers, the
    files of the supervisor, and the cluster's token and the server's key. Weights and images go only where that is
    asked for. Looks again afterwards, and fails where anything is left. Driver, container runtime, tuning and fabric
    stay.
  - Does not wait; M(firstlight.cluster.serving_status) does.
options:
  state:
    description: How the host is to be, or what is to be done.
    type: str
    choices: [drained, uncordoned, started, restarted, absent]
    required: true
  by:
    description: Who takes it out of service, for people.
    type: str
    default: ""
  reason:
    description: Why, for people.
    type: str
    default: ""
  stop_timeout:
    description: Seconds that each unit which is stopped here may take.
    type: int
    default: 180
  weights:
    description: >-
      With O(state=absent), whether model weights go, too. Only directories with the record of a verified snapshot do.
    type: bool
    default: false
  images:
    description: With O(state=absent), whether the engine's images go, too.
    type: bool
    default: false
  model_root:
    description: With O(state=absent), the directory under which weights are kept.
    type: path
    default: /var/lib/firstlight/models
  model_directories:
    description: With O(state=absent), directories of weights elsewhere.
    type: list
    elements: str
    default: []
  references:
    description: With O(state=absent), pinned image references beside the engine's local names, which are known.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reports whether anything would change.
    support: full
  diff_mode:
    description: The marker, or what goes, is in the result.
    support: none
  idempotent:
    description: A host that is as it should be is left alone. Every O(state=restarted) is another restart.
    support: partial
"""

EXAMPLES = r"""
- name: Take the host out of service
  firstlight.cluster.serving_state:
    state: drained
    by: alice at control
    reason: a new cable

- name: Restart the serving group
  firstlight.cluster.serving_state:
    state: restarted
  register: restart

- name: Wait until the cluster serves again
  firstlight.cluster.serving_status:
    until: serving
    former: "{{ restart.former }}"
    since: "{{ restart.at }}"

- name: Remove everything that serves from the host
  firstlight.cluster.serving_state:
    state: absent
    weights: true
"""

RETURN = r"""
drained:
  description: What the marker says afterwards; null where there is none.
  returned: with O(state=drained) and O(state=uncordoned)
  type: dict
  sample: {"by": "alice at control", "reason": "a new cable", "at": "2026-11-15T09:00:00+00:00"}
message:
  description: The same in words; empty where there is none.
  returned: with O(state=drained) and O(state=uncordoned)
  type: str
  sample: "alice at control at 2026-11-15T09:00:00+00:00: a new cable"
was:
  description: What the marker said before, in words; empty where there was none.
  returned: with O(state=drained) and O(state=uncordoned)
  type: str
  sample: ""
stopped:
  description: Units that were, or in check mode would be, stopped here. The supervisor stops the others.
  returned: with O(state=drained) and O(state=uncordoned)
  type: list
  elements: str
  sample: [firstlight-balancer.service]
started:
  description: Units that were, or in check mode would be, started here.
  returned: with O(state=drained) and O(state=uncordoned)
  type: list
  elements: str
  sample: []
former:
  description: The epoch in which each group was.
  returned: with O(state=started) and O(state=restarted)
  type: dict
  sample: {"server": "20261115T090000-1"}
supervisor:
  description: What systemd said of the supervisor before.
  returned: with O(state=started) and O(state=restarted)
  type: str
  sample: active (running)
at:
  description: The host's own time; what the supervisor wrote before knows nothing of this.
  returned: but with O(state=absent)
  type: str
  sample: "2026-11-15T09:00:00+00:00"
lines:
  description: What goes, or would.
  returned: with O(state=absent)
  type: list
  elements: str
  sample: ["unit firstlight-ray.service: stopped and removed", "secret /etc/firstlight/cluster.token"]
kept:
  description: What of Firstlight's stays, and how it would go.
  returned: with O(state=absent)
  type: list
  elements: str
  sample: ["stays: 1 models, 406.0 GB; -e teardown_weights=true removes them"]
left:
  description: What is left although it should be gone.
  returned: with O(state=absent)
  type: list
  elements: str
  sample: []
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import DRAINED_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving import removal
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import read_document
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.look import look
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.phase import epochs
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.remove import RemoveError, find, remove
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.service import (
    ServiceError,
    drained_by,
    idle_services,
    remove_marker,
    restart_group,
    set_marker,
    start_service,
    stop_group,
    unkept_units,
    utc_now,
)


def _marker(host: Host) -> dict[str, Any] | None:
    text = host.read_text(DRAINED_PATH)
    return None if text is None else read_document(text, DRAINED_PATH)[0] or {}


def change(host: Host, parameters: dict[str, Any], *, check_mode: bool) -> dict[str, Any]:
    """Set or remove the marker, with what belongs to it, or give the supervisor its order."""
    if parameters["state"] in ("started", "restarted"):
        return _order(host, parameters["state"], check_mode=check_mode)
    before = _marker(host)
    stopped: list[str] = []
    started: list[str] = []
    if parameters["state"] == "drained":
        at = utc_now().isoformat(timespec="seconds")
        content = {"by": parameters["by"], "reason": parameters["reason"], "at": at}
        changed = set_marker(host, content, check_mode=check_mode)
        stopped = (
            unkept_units(look(host, segments=False)) if check_mode else stop_group(host, parameters["stop_timeout"])
        )
        after = content if check_mode and changed else _marker(host)
    else:
        changed = remove_marker(host, check_mode=check_mode)
        started = idle_services(look(host, segments=False)) if check_mode else start_service(host)
        after = None
    return {
        "changed": changed or bool(stopped or started),
        "drained": after,
        "message": "" if after is None else drained_by(after),
        "was": "" if before is None else drained_by(before),
        "stopped": stopped,
        "started": started,
        "at": utc_now().isoformat(),
    }


def _order(host: Host, state: str, *, check_mode: bool) -> dict[str, Any]:
    """Have the groups restarted, or only see to it that somebody is there to take an order; what there was."""
    seen = look(host, segments=False)
    told: dict[str, Any] = {
        "former": epochs(seen["state"]),
        "supervisor": seen["supervisor"],
        "at": utc_now().isoformat(),
    }
    if state == "started":
        idle = idle_services(seen)
        if idle and not check_mode:
            start_service(host)
        return {**told, "changed": bool(idle)}
    return {**told, "former": restart_group(host, check_mode=check_mode), "changed": True}


def take_off(host: Host, parameters: dict[str, Any], *, check_mode: bool) -> dict[str, Any]:
    """Find what serves, take it away, look again; `msg` says why that did not come off."""
    asked = {"weights": parameters["weights"], "images": parameters["images"]}
    places = (parameters["model_root"], parameters["references"], parameters["model_directories"])
    told: dict[str, Any] = {"lines": [], "kept": [], "left": []}
    try:
        found = find(host, *places)
        going = removal.wanted(found, **asked)
        told |= {"changed": not going.nothing, "lines": removal.lines(going), "kept": removal.kept(found, going)}
        if not check_mode and not going.nothing:
            remove(host, going, parameters["model_root"])
            told["left"] = removal.lines(removal.wanted(find(host, *places), **asked))
    except RemoveError as error:
        return {**told, "msg": str(error)}
    except OSError as error:
        why = f"{error.filename} cannot be removed ({error.strerror})"
        return {**told, "msg": f"{why}, expected to be allowed to: run with become"}
    if told["left"]:
        why = f"Something is left: {'; '.join(told['left'])}"
        told["msg"] = f"{why}. Expected nothing: check the host, and run again"
    return told


def main() -> None:
    """Change what has to be changed, and tell."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["drained", "uncordoned", "started", "restarted", "absent"],
                "required": True,
            },
            "by": {"type": "str", "default": ""},
            "reason": {"type": "str", "default": ""},
            "stop_timeout": {"type": "int", "default": 180},
            "weights": {"type": "bool", "default": False},
            "images": {"type": "bool", "default": False},
            "model_root": {"type": "path", "default": "/var/lib/firstlight/models"},
            "model_directories": {"type": "list", "elements": "str", "default": []},
            "references": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    bring_about = take_off if module.params["state"] == "absent" else change
    try:
        result = bring_about(Host(), module.params, check_mode=module.check_mode)
    except ServiceError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or DRAINED_PATH} cannot be changed ({error.strerror}), expected to write there: run "
            "with become"
        )
    if "msg" in result:
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
