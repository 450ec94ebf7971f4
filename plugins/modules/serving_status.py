#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `serving_status`: what serves on a host, in one look."""

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_status
short_description: Read whether and how a host serves, and its logs
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Reads what the supervisor of the host wrote of its groups, the units and containers that there are, who took the
    host out of service, and how much memory is free. One short look; nothing is changed and no server is asked.
  - With O(until=idle) waits until no unit, container, port or shared-memory segment of serving is left, and the memory
    that the groups need is free again. Fails with everything that is still there when the time is over.
  - With O(until=serving), on the head, waits until the supervisor says that every group serves, which it does only
    after a completion. Fails with the supervisor's own reason as soon as it has given up, and with the phase and its
    reason when the time is over.
  - With O(log) reads only the last lines that Ray, the servers, the balancer and the supervisor of the host wrote to
    its journal. What looks like a secret, and the host's own secrets wherever they stand, are taken out on the host.
options:
  ports:
    description:
      - Ports that are looked at, beside those on which the supervisor asks its servers. With O(until=idle), nobody may
        listen on them any more.
    type: list
    elements: int
    default: []
  until:
    description: What is waited for. By default nothing.
    type: str
    choices: [idle, serving]
  timeout:
    description: Seconds to wait.
    type: int
    default: 300
  former:
    description: With O(until=serving), the epoch of each group that does not count, as it is the one before a restart.
    type: dict
    default: {}
  since:
    description: With O(until=serving), the host's time before which what the supervisor wrote does not count.
    type: str
  log:
    description: Which lines of the journal to read, in place of all else.
    type: dict
    suboptions:
      units:
        description: Units or patterns of units. Only those of Firstlight can be asked for.
        type: list
        elements: str
        default: ["firstlight-*"]
      lines:
        description: How many lines at most, the last ones.
        type: int
        default: 200
      since:
        description: What is older is left out, as C(journalctl --since) takes it.
        type: str
        default: ""
      cursor:
        description: Go on after this place, which an earlier call returned. O(log.since) then does not matter.
        type: str
        default: ""
attributes:
  check_mode:
    description: Only reads. What is not changed is not waited for.
    support: full
  diff_mode:
    description: Only reads.
    support: none
"""

EXAMPLES = r"""
- name: Read the serving status
  firstlight.cluster.serving_status:
  register: status

- name: Wait until serving has stopped
  firstlight.cluster.serving_status:
    until: idle
    ports: [290, 6379]

- name: Wait until the cluster serves
  firstlight.cluster.serving_status:
    until: serving
    timeout: 900

- name: Read the logs of the last ten minutes
  firstlight.cluster.serving_status:
    log:
      since: 10 minutes ago
"""

RETURN = r"""
serving:
  description: What was found.
  returned: without O(until) and O(log)
  type: dict
  contains:
    time:
      description: The host's own time.
      type: str
      returned: always
      sample: "2026-11-15T09:00:00+00:00"
    config:
      description: Head and groups, as the supervisor is set up; empty where there is none.
      type: dict
      returned: always
      sample: {"node": "spark1", "head": "spark0", "groups": {"server": {"head": "spark0", "model": "tiny"}}}
    state:
      description: What the supervisor last wrote; null where it wrote nothing since the host was started.
      type: dict
      returned: always
      sample: {"node": "spark1", "groups": {"server": {"phase": "serving"}}}
    supervisor:
      description: What systemd says of the supervisor.
      type: str
      returned: always
      sample: active (running)
    units:
      description: Units of serving that are there.
      type: dict
      returned: always
      sample: {"firstlight-ray.service": {"load": "loaded", "active": "active", "sub": "running", "result": "success"}}
    containers:
      description: Containers by name.
      type: dict
      returned: always
      sample: {"firstlight-ray": "Up 2 hours"}
    ports:
      description: Which of the ports are taken.
      type: list
      elements: int
      returned: always
      sample: [6379]
    replicas:
      description:
        - Of servers that Ray Serve spreads over hosts, how many answer and how many are planned, as the program on the
          head last said. Null on every other host.
      type: dict
      returned: always
      sample: {"answer": 1, "planned": 2}
    segments:
      description: Shared-memory segments of the engine that no process uses.
      type: list
      elements: str
      returned: always
      sample: []
    memory:
      description: Total and free memory of the machine and of its GPUs, in bytes.
      type: dict
      returned: always
      sample: {"kind": "unified", "share": 0.85, "machine": {"name": "the memory", "total": 128000000000,
               "free": 12000000000}, "gpus": [], "parts": []}
    drained:
      description: What the marker of a host out of service says; null where there is none.
      type: dict
      returned: always
      sample: {"by": "alice at control", "reason": "new cable", "at": "2026-11-15T09:00:00+00:00"}
    problems:
      description: What could not be read, and why.
      type: dict
      returned: always
      sample: {}
left:
  description: What of serving is on the host, in words; nothing on one that serves nothing, and with O(until=serving).
  returned: without O(log)
  type: list
  elements: str
  sample: [firstlight-ray.service is active (running)]
outcome:
  description: V(done), or V(drained) for groups that serve nothing as long as other hosts are out of service.
  returned: with O(until)
  type: str
  sample: done
message:
  description: How it stands, in words.
  returned: with O(until)
  type: str
  sample: it serves
epochs:
  description: The epoch of each group, for O(until=serving).
  returned: with O(until)
  type: dict
  sample: {"server": "20261115T090000-1"}
seconds:
  description: How long it took.
  returned: with O(until)
  type: float
  sample: 12.5
entries:
  description: The lines, oldest first. C(at) is in microseconds since 1970, C(priority) from 0 (worst) to 7.
  returned: with O(log)
  type: list
  elements: dict
  sample: [{"at": 1794733200000000, "unit": "firstlight-ray.service", "priority": 6, "text": "Ray runtime started."}]
cursor:
  description: The place after the last line, to go on from.
  returned: with O(log)
  type: str
  sample: s=1;i=2
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import SUPERVISOR_UNIT
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.journal import JournalReadError, read_journal
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.left import leftovers
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.look import look
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.phase import DONE, OUT, Standing, parse_time
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.service import wait_idle, wait_serving
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines

MOST_LINES = 20_000


def log_result(host: Host, asked: dict[str, Any]) -> dict[str, Any]:
    """What was written; `msg` says why it cannot be read."""
    foreign = [unit for unit in asked["units"] if not unit.startswith("firstlight-")]
    if foreign or not asked["units"]:
        named = ", ".join(foreign) or "nothing"
        return {"msg": f"units has {named}, expected units of Firstlight: write names that begin with firstlight-"}
    if not 0 < asked["lines"] <= MOST_LINES:
        return {"msg": f"lines is {asked['lines']}, expected 1 to {MOST_LINES}"}
    try:
        entries, cursor = read_journal(host, **asked)
    except JournalReadError as error:
        return {"msg": str(error)}
    return {"entries": entries, "cursor": cursor}


def idle_result(left: list[str], seconds: float) -> dict[str, Any]:
    """What is told of a host that was to serve nothing."""
    words = "nothing of serving is left" if not left else "; ".join(left)
    told: dict[str, Any] = {"outcome": DONE, "message": words, "left": left, "epochs": {}, "seconds": seconds}
    if left:
        told["msg"] = (
            f"After {seconds:g} s something of serving is left: {words}. Expected nothing: see "
            f"`journalctl --unit {SUPERVISOR_UNIT}` on the host, stop what is named, and run again"
        )
    return told


def serving_result(found: Standing, seconds: float) -> dict[str, Any]:
    """What is told of a head whose groups were to serve."""
    told: dict[str, Any] = {
        "outcome": found.verdict,
        "message": found.words,
        "left": [],
        "epochs": dict(found.epochs),
        "seconds": seconds,
    }
    if found.verdict not in (DONE, OUT):
        told["msg"] = (
            f"After {seconds:g} s it does not serve: {found.words}. Expected every group to serve: `firstlight status` "
            "and `firstlight logs` show all hosts; once that is fixed, run restart.yml"
        )
    return told


def main() -> None:
    """Look or wait, and tell."""
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "int", "default": []},
            "until": {"type": "str", "choices": ["idle", "serving"]},
            "timeout": {"type": "int", "default": 300},
            "former": {"type": "dict", "default": {}},
            "since": {"type": "str"},
            "log": {
                "type": "dict",
                "options": {
                    "units": {"type": "list", "elements": "str", "default": ["firstlight-*"]},
                    "lines": {"type": "int", "default": 200},
                    "since": {"type": "str", "default": ""},
                    "cursor": {"type": "str", "default": ""},
                },
            },
        },
        mutually_exclusive=[("until", "log")],
        supports_check_mode=True,
    )
    parameters, host = module.params, Host()
    if parameters["log"]:
        result = log_result(host, parameters["log"])
        if "msg" in result:
            module.fail_json(**result)
        module.exit_json(changed=False, **result)
    if parameters["until"] is None:
        seen = look(host, parameters["ports"])
        module.exit_json(changed=False, serving=seen, left=leftovers(seen))
    if module.check_mode:
        module.exit_json(changed=False, outcome=DONE, message="not waited for", left=[], epochs={}, seconds=0.0)
    if parameters["until"] == "idle":
        result = idle_result(*wait_idle(host, parameters["ports"], parameters["timeout"]))
    else:
        since = parse_time(parameters["since"]) if parameters["since"] else None
        result = serving_result(*wait_serving(host, parameters["timeout"], parameters["former"], since))
    if "msg" in result:
        module.fail_json(**result, log=last_lines(host, SUPERVISOR_UNIT, 20))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
