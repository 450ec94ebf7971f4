# SPDX-License-Identifier: Apache-2.0
"""The lookup `group_state`: the combined state of the hosts of a run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: group_state
short_description: Evaluate the hosts of a run together
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Puts together the facts that playbooks and roles keep of each host, at the moment it is asked. A group serves as a
    whole, so that what one host came to decides for all of them.
options:
  _terms:
    description:
      - What to evaluate. V(compared) tells where the current host differs from its plan.
      - V(repin), V(repin_report) and V(switch) follow C(playbooks/repin.yml) and
        C(playbooks/switch_model.yml), and V(repin_decision) tells what a re-pin does with the host that asks.
      - V(named) finds the hosts of the cluster that are named by themselves or by a group, V(members) tells what other
        hosts in the cluster mean for each, V(replacement) whether the host that asks is the machine that replaces
        another, and V(removal) what it means to take a host out. V(exposed) tells what faces others on the host that
        asks, V(require_all_hosts) which hosts of the play are out where it needs all of them, and V(serving) what there
        is to do until it serves as planned.
      - V(status) and V(logs) put the answers of M(firstlight.cluster.serving_status) and of the units' journals
        together, V(weights) tells who fetches the model and who takes it from another host.
      - V(gpus) and V(fabric) evaluate what M(firstlight.cluster.gpu_burn_in) and
        M(firstlight.cluster.fabric_connectivity) found on all hosts.
    type: list
    elements: str
    required: true
  full:
    description: With V(serving) and V(weights), whether everything is done, whatever differs.
    type: bool
    default: false
  named:
    description: With V(switch), what was named for the new model beside its name, C(revision) and C(serving).
    type: dict
    default: {}
  newcomers:
    description: With V(members), the hosts that are new.
    type: list
    elements: str
    default: []
  node:
    description: With V(removal), the host that goes.
    type: str
    default: ""
  nodes:
    description: With V(named), names of hosts or groups, with commas between them or as a list.
    type: raw
  phase:
    description:
      - With V(require_all_hosts), the phase that is about to begin. The hosts of one cluster begin it together, those
        of several racks each for itself. Without it what serves is about to begin, which needs all hosts in any case.
    type: str
    default: ""
  max_reboots:
    description: With V(repin_decision), how often a host may be rebooted for re-pins in 12 hours.
    type: int
    default: 4
  register:
    description: With V(compared), the variable in which M(firstlight.cluster.compare) was registered.
    type: str
    default: __compared
  restart:
    description: With V(members), whether what serves may be restarted.
    type: bool
    default: false
  serves:
    description: With V(repin_decision), whether what serves is the re-pin's business, too.
    type: bool
    default: true
  serving:
    description: With V(removal), settings of C(firstlight_serving) that were named for the rest.
    type: dict
    default: {}
  single:
    description: With V(named), whether it must be one host.
    type: bool
    default: false
  targets:
    description: With V(status), the variable C(firstlight_targets), which the last minutes are held against.
    type: raw
  power:
    description:
      - With V(gpus), what there is of power in W, C(host_w), C(rack_w), and C(other_w), what a host takes beside its
        GPUs.
    type: dict
    default: {}
  accept:
    description: With V(gpus), ids of checks that may be as they are.
    type: list
    elements: str
    default: []
  members:
    description: With V(fabric), all hosts of the fabric in the order in which the matrix shows them.
    type: list
    elements: str
    default: []
  minimum_bandwidth:
    description:
      - With V(fabric), the least throughput of a path in Gb/s, C(tcp_gbit) and C(rdma_gbit). What is not given is not
        evaluated.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Fail if the switch is refused
  ansible.builtin.assert:
    that: lookup('firstlight.cluster.group_state', 'switch').problems | length == 0

- name: Show the work to do
  ansible.builtin.debug:
    msg: "{{ lookup('firstlight.cluster.group_state', 'serving', full=true) }}"
"""

RETURN = r"""
_raw:
  description:
    - One mapping for each term.
    - V(compared) has facts for M(ansible.builtin.set_fact), which are the variables of all roles of the plan,
      C(firstlight_plan), C(firstlight_observation), C(firstlight_pending), the differences by role, and
      C(firstlight_steps), what there is to do on the host.
    - V(repin) has C(refused), sentences, C(forward), whether the group moves, C(failed), problems by host, C(whole),
      whether every host that was to move has moved, C(put_back), the hosts that have to be put back, and C(waits_for),
      those without which the group cannot serve. V(repin_report) has the C(document) and its C(lines).
    - V(repin_decision) has C(action), move, back, done, leave or refuse, C(reasons), C(resumes), the state at which an
      earlier run stopped, and the set that the host moves C(to) with C(from_packages) and C(from_files). A host that an
      earlier run left half-way goes on where it stopped. One that was not well before is left alone. A factory driver,
      a host that was rebooted too often, and a re-pin to yet another stack are refused.
    - V(switch) has C(problems) for which nothing may be done, C(pending), whether anything of serving differs,
      C(failed), what went wrong with the new model by host, C(lost), what went wrong during the rollback, and C(lines)
      for the inventory.
    - V(members) has C(problems), C(serve), whether the run goes on to what serves, C(restarts), the hosts on which that
      starts anew, C(touched), what is changed on hosts that are not new, C(roles) that hold on every host afterwards,
      and C(lines).
    - V(named) has C(hosts) in the order of the inventory and C(problem), empty where there is none. V(replacement) has
      C(problem) and C(words) on what the machine is. V(removal) has C(problems), C(stops), what stops serving in words,
      and C(lines) for the inventory. V(exposed) has C(roles) of which something is there, planned or not, and
      V(require_all_hosts) C(missing), hosts that are out by their rack, and the C(message) that says so.
    - V(serving) has C(any), whether there is anything to do, C(stop), whether something will change, C(ray) and
      C(server), whether those roles run, C(restart), whether the server starts anew although nothing of its own
      differs, C(rebuild), what its engine has to make anew, and C(other_model), the name under which the head serves
      another model than its plan has.
    - V(status) has C(verdict), V(serving), V(partly serving), V(not serving) or V(unknown), C(why), C(groups),
      C(nodes), C(service) and C(lines). V(logs) has C(entries) by time, C(cursors) and C(silent).
    - V(weights) has C(fetches), C(shares), C(receives) and C(streams).
    - V(gpus) has C(records) by host and C(wrong), a line for each check of all hosts together that is not right.
      V(fabric) has C(passed), C(records), C(diagnoses), a line for each fault, and C(lines), the matrix.
  type: list
  elements: dict
"""

import datetime as dt
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.group_state import SUBJECTS, Run


class LookupModule(LookupBase):
    """Evaluates subjects from the facts of all hosts."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return one state per term."""
        self.set_options(var_options=variables, direct=kwargs)
        unknown = [term for term in terms if term not in SUBJECTS]
        if unknown:
            raise AnsibleLookupError(f"group_state does not know {unknown[0]!r}, expected one of {', '.join(SUBJECTS)}")
        run = Run.of(variables or {})
        options = {**self.get_options(), "at": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        try:
            return [SUBJECTS[term](run, options) for term in terms]
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise AnsibleLookupError(f"group_state cannot describe {', '.join(terms)}: {error!r}") from error
