#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `repin`: a host's move from one set of packages to another, or back, and each step of it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: repin
short_description: Move a host from one exact set of packages to another, or back
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - A move goes from the set that is installed to another one, in one apt transaction, with everything that is needed to
    undo it kept on the host. Each step adds an entry to the journal in C(/var/lib/firstlight/repin/journal.json), which
    is on disk before the module answers. Any controller can go on from there.
  - Forward the entries are C(planned), C(drained), C(staged), C(installed), C(reboot-requested) and C(booted) where the
    driver asks for it, C(verified) and C(uncordoned). After C(failed) there is only the rollback, with C(installed),
    C(reboot-requested), C(booted), C(rolled-back) and C(uncordoned).
  - Every action looks at what is there first. Asked again after it was cut off, it does the rest; asked for what is
    done, it does nothing. Two runs never work on one host at the same time; the second waits for the first.
  - O(action=move) runs on the controller and takes the steps from C(drained) to C(verified) in the order that the
    journal asks for. It begins wherever the journal is, so it also goes on with a move that another controller left. It
    reboots where the loaded driver is not the installed one, and verifies the host with the same observation and
    comparison as a bring-up.
  - There, a step that fails, or a verification that does not hold within O(gate_timeout), turns the move back. The
    former set is installed and verified, and the host ends at C(rolled-back). Where the rollback does not hold either,
    the host stays drained and the result says so. A host that goes away in the middle of a step is asked again where it
    is. A bad outcome does not fail the task; the playbook decides for the whole group.
options:
  action:
    description:
      - V(read) returns the journal and what a controller has to know beside it.
      - V(begin) records what is installed, held and configured, and opens a journal.
      - V(fetch) keeps the packages of both ways on the host and rehearses both ways from them alone. The rollback is
        rehearsed from the packages as they will be then.
      - V(drain) takes the host out of service and remembers what ran.
      - V(stage) checks every kept package by its hash.
      - V(install) brings about the set of O(direction), after repairing what a cut-off run of dpkg left.
      - V(settle) starts what the set wants running and restarts O(restart) where no reboot did.
      - V(request_reboot) writes the reboot down and asks for it, within the limit of O(max_reboots) in 12 hours. A move
        forward leaves one of them for the rollback.
      - V(note) adds an entry that the controller decides on.
      - V(uncordon) gives the host back, unless it was out of service before.
      - V(close) puts a finished journal with the closed ones.
      - V(move) takes all steps from the journal's to the verdict. A host that has its verdict is left alone.
    type: str
    required: true
    choices: [move, read, begin, fetch, drain, stage, install, settle, request_reboot, note, uncordon, close]
  id:
    description: Name of the move, the same on all hosts. For O(action=begin).
    type: str
  stack:
    description: Name of the stack that the host moves to. For O(action=begin).
    type: str
  previous_stack:
    description: Name of the stack that the host comes from, where it is known. For O(action=begin).
    type: str
  to:
    description:
      - The set to move to, with C(packages) (versions by name, null for any), C(holds) (names) and C(files) (by path,
        each with C(content) and C(mode)). For O(action=begin); with O(action=read) its packages are looked at.
      - A package of any version is installed where it is missing, and left alone where it is there.
      - Where a journal of O(stack) is open, its own set counts, whatever this says.
    type: dict
  from_packages:
    description: Packages of the set that the host comes from. Those that O(to) does not have go.
    type: list
    elements: str
    default: []
  from_files:
    description: Files of the set that the host comes from. Those that O(to) does not have go.
    type: list
    elements: str
    default: []
  restore:
    description:
      - Further files, or patterns of files, that the rollback restores as they are when the move begins. What is new
        under a pattern then goes. Files below C(/etc/firstlight) are refused.
      - The journal is readable for everybody. Of a file that is not, it has the SHA-256 alone; the content is kept in
        C(/var/lib/firstlight/repin/private-ID.json), for root, until the journal is closed.
    type: list
    elements: str
    default: []
  max_reboots:
    description: How often the host may be rebooted in 12 hours. For O(action=begin).
    type: int
    default: 4
  without_rollback:
    description: Whether to go on where the packages that are installed are no longer available. For O(action=fetch).
    type: bool
    default: false
  units:
    description:
      - For O(action=drain) the units to stop, as a list, in that order. Without it everything of Firstlight's that
        serves is stopped, the supervisor first.
      - For O(action=settle) what the desired states say of units, as a dictionary by name.
    type: raw
  restart:
    description: Units by name, each with the files it reads when it starts. It is restarted where the latest
      C(install) wrote one of them in this boot. For O(action=settle).
    type: dict
    default: {}
  simulate_upgrade:
    description: Whether to ask apt what an upgrade of everything would do to the new set. For O(action=read).
    type: bool
    default: false
  stop_timeout:
    description: Seconds that each unit may take to stop. For O(action=drain) and O(action=install).
    type: int
    default: 300
  direction:
    description:
      - Which way the step goes. For O(action=install), O(action=request_reboot) and O(action=note).
      - With O(action=move) V(forward) unless given; V(back) moves the host back from wherever it is, also one that is
        verified already.
    type: str
    choices: [forward, back]
  reason:
    description: Why a host that did not fail itself is moved back, for its journal. For O(action=move).
    type: str
    default: ""
  verify:
    description:
      - Desired states by role. Driver, CUDA toolkit, container runtime and the GPUs have to hold on the new set, as a
        bring-up verifies them. For O(action=move).
    type: dict
    default: {}
  verify_rollback:
    description:
      - Desired states by role, of which only what no package brings has to hold on the former set. What the journal
        recorded always has to. For O(action=move).
    type: dict
    default: {}
  reboot_timeout:
    description: Seconds a host may take to come back from a reboot. For O(action=move).
    type: int
    default: 900
  answer_timeout:
    description: Seconds each probe of the verification may take. For O(action=move).
    type: int
    default: 30
  gate_timeout:
    description: Seconds until the verification has to hold; units start after a boot. For O(action=move).
    type: int
    default: 180
  unreachable_timeout:
    description: Seconds a host may be silent when no reboot was asked for. For O(action=move).
    type: int
    default: 120
  state:
    description: The entry to add. For O(action=note).
    type: str
    choices: [booted, verified, failed, rolled-back]
  detail:
    description: What the entry says beside its state, such as C(at) and C(reason) of a failure.
    type: dict
    default: {}
  lock_timeout:
    description: Seconds to wait for another run of this module or of apt.
    type: int
    default: 600
  timeout:
    description: Seconds each call of apt may take.
    type: int
    default: 1800
attributes:
  check_mode:
    description:
      - Looks at the same things, refuses the same things and changes nothing. C(fetch) fetches package lists into a
        scratch directory and tells what it would keep; where no journal is open it takes the parameters of C(begin).
        C(move) says which step would be next.
    support: full
  diff_mode:
    description: The steps and files are in the result.
    support: none
  idempotent:
    description: An action whose entry is in the journal does nothing.
    support: full
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Open a journal
  firstlight.cluster.repin:
    action: begin
    id: 20261115T090000Z-h100-vllm-0.32
    stack: h100-vllm-0.32
    previous_stack: h100-vllm-0.31
    to:
      packages:
        nvidia-driver-580-server: 580.126.09-0ubuntu0.24.04.2
      holds: [nvidia-driver-580-server]
      files: {}
    from_packages: [nvidia-driver-580-server]
    restore: ["/etc/systemd/system/firstlight-*.service"]

- name: Fetch the packages for both directions
  firstlight.cluster.repin:
    action: fetch

- name: Take the host out of service
  firstlight.cluster.repin:
    action: drain

- name: Move the host
  firstlight.cluster.repin:
    action: move
    verify: "{{ firstlight_plan.desired }}"
    reboot_timeout: 1200
  register: moved

- name: Roll back the host with its group
  firstlight.cluster.repin:
    action: move
    direction: back
    reason: spark1 failed
"""

RETURN = r"""
journal:
  description: The journal, or null where none is open.
  returned: success
  type: dict
  sample: {"id": "20261115T090000Z-b", "stack": "b", "entries": [{"state": "planned", "direction": "forward",
           "at": "2026-11-15T09:00:00Z", "boot_id": "2f6c0f3e-0d1c-4a57-9e53-0c5a1f2b7d11", "detail": {}}]}
state:
  description: The state of its latest entry.
  returned: success
  type: str
  sample: planned
direction:
  description: Where the move goes; a journal with a failure goes back.
  returned: success
  type: str
  sample: forward
boot_id:
  description: The name of this boot.
  returned: with C(read) and C(request_reboot)
  type: str
  sample: 2f6c0f3e-0d1c-4a57-9e53-0c5a1f2b7d11
reboots:
  description: When moves rebooted the host within the last 12 hours.
  returned: with C(read)
  type: list
  elements: str
  sample: ["2026-11-15T09:04:11Z"]
dpkg_broken:
  description: Packages that dpkg left half done.
  returned: with C(read)
  type: list
  elements: str
  sample: []
drained:
  description: What the marker of a host out of service says; null where there is none.
  returned: with C(read)
  type: dict
  sample: {"by": "firstlight repin", "id": "20261115T090000Z-b", "services": ["firstlight-ray.service"]}
set:
  description: Versions and holds of the packages in O(to) and O(from_packages).
  returned: with C(read) and O(to)
  type: dict
  sample: {"packages": {"nvidia-utils-580": "580.95.05-0ubuntu0.24.04.2"}, "holds": {"nvidia-utils-580": true}}
differs:
  description: Where the host is not exactly on the set at the end of each way.
  returned: with C(read) and an open journal
  type: dict
  sample: {"forward": ["package nvidia-utils-580 is version 580.95.05-0ubuntu0.24.04.2, expected no such package"],
           "back": []}
upgrade:
  description: What an upgrade of everything would do to the new set.
  returned: with C(read), O(simulate_upgrade) and an open journal
  type: list
  elements: str
  sample: []
target_differs:
  description: Whether the open journal has another set than O(to).
  returned: with C(begin)
  type: bool
  sample: false
steps:
  description: What the transaction does or did.
  returned: with C(fetch) and C(install)
  type: list
  elements: dict
  sample: [{"name": "nvidia-utils-580", "old": "580.95.05-0ubuntu0.24.04.2", "new": "580.126.09-0ubuntu0.24.04.2"}]
fetched:
  description: Packages that were not kept before.
  returned: with C(fetch)
  type: list
  elements: str
  sample: ["nvidia-utils-580_580.126.09-0ubuntu0.24.04.2_amd64.deb"]
kept:
  description: Packages that were kept already.
  returned: with C(fetch)
  type: list
  elements: str
  sample: []
bytes_needed:
  description: Bytes that had to be kept in addition.
  returned: with C(fetch)
  type: int
  sample: 412876544
bytes_free:
  description: Bytes that were free for it.
  returned: with C(fetch)
  type: int
  sample: 812876544000
files:
  description: Files that were written or removed.
  returned: with C(install)
  type: list
  elements: str
  sample: ["/etc/apt/preferences.d/00-firstlight-nvidia"]
held:
  description: Packages that were put on hold.
  returned: with C(install)
  type: list
  elements: str
  sample: ["nvidia-utils-580"]
unheld:
  description: Packages whose hold was taken off.
  returned: with C(install)
  type: list
  elements: str
  sample: []
repaired:
  description: Whether dpkg had to be repaired first.
  returned: with C(install)
  type: bool
  sample: false
services:
  description:
    - With C(drain) whether each unit was active and enabled before.
    - With C(uncordon) the units to start again, none for a host that was out of service. Where there was a supervisor
      it is the supervisor, which starts the engine on all nodes in order.
  returned: with C(drain) and C(uncordon)
  type: raw
  sample: ["firstlight-supervisor.service"]
out_of_service:
  description: Whether the host was out of service before the move.
  returned: with C(drain) and C(uncordon)
  type: bool
  sample: false
closed:
  description: Where the closed journal is.
  returned: with C(close)
  type: str
  sample: /var/lib/firstlight/repin/history/20261115T090000Z-b.json
outcome:
  description: >-
    V(verified) on the new set, V(rolled-back) on the former one, V(failed) where neither could be verified, V(lost)
    where the host does not answer; empty in check mode.
  returned: with C(move)
  type: str
  sample: verified
problem:
  description: What went wrong, empty when the host is verified.
  returned: with C(move)
  type: str
  sample: "failed at booted: loaded driver module is none, expected 580.126.09"
problems:
  description: What did not hold, in sentences, where more is known than in C(problem).
  returned: with C(move)
  type: list
  elements: str
  sample: []
timeline:
  description: The entries of the journal with the seconds since its first one.
  returned: with C(move)
  type: list
  elements: dict
  sample: [{"at": "2026-11-15T09:00:00Z", "state": "planned", "direction": "forward", "seconds_since_start": 0,
            "detail": {}}]
unchanged_host:
  description: Whether the host was put back before any package could have changed.
  returned: with C(move), not in check mode
  type: bool
  sample: false
would:
  description: The next step.
  returned: with C(move), in check mode
  type: list
  elements: str
  sample: ["installing"]
refused:
  description: True when the module says why it did not do its work, and was not cut off in the middle of it.
  returned: failure
  type: bool
  sample: true
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_local import LocalApt
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.deb_store import Store
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.actions import perform
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.journals import Journals, Marker
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.machine import PROBLEMS, Machine


def main() -> None:
    """Read the parameters, take the step, report."""
    module = AnsibleModule(
        argument_spec={
            "action": {
                "type": "str",
                "required": True,
                "choices": [
                    "move",  # by the action plugin; what arrives here is one of the others
                    "read",
                    "begin",
                    "fetch",
                    "drain",
                    "stage",
                    "install",
                    "settle",
                    "request_reboot",
                    "note",
                    "uncordon",
                    "close",
                ],
            },
            "id": {"type": "str"},
            "stack": {"type": "str"},
            "previous_stack": {"type": "str"},
            "to": {"type": "dict"},
            "from_packages": {"type": "list", "elements": "str", "default": []},
            "from_files": {"type": "list", "elements": "str", "default": []},
            "restore": {"type": "list", "elements": "str", "default": []},
            "max_reboots": {"type": "int", "default": 4},
            "without_rollback": {"type": "bool", "default": False},
            "units": {"type": "raw"},
            "restart": {"type": "dict", "default": {}},
            "simulate_upgrade": {"type": "bool", "default": False},
            "stop_timeout": {"type": "int", "default": 300},
            "direction": {"type": "str", "choices": ["forward", "back"]},
            "reason": {"type": "str", "default": ""},
            "verify": {"type": "dict", "default": {}},
            "verify_rollback": {"type": "dict", "default": {}},
            "reboot_timeout": {"type": "int", "default": 900},
            "answer_timeout": {"type": "int", "default": 30},
            "gate_timeout": {"type": "int", "default": 180},
            "unreachable_timeout": {"type": "int", "default": 120},
            "state": {"type": "str", "choices": ["booted", "verified", "failed", "rolled-back"]},
            "detail": {"type": "dict", "default": {}},
            "lock_timeout": {"type": "int", "default": 600},
            "timeout": {"type": "int", "default": 1800},
        },
        required_if=[("action", "begin", ("id", "to")), ("action", "note", ("state",))],
        supports_check_mode=True,
    )
    host = Host()
    machine = Machine(
        host=host,
        apt=LocalApt(host, module.params["timeout"], module.params["lock_timeout"]),
        store=Store(host),
        journals=Journals(host),
        marker=Marker(host),
        lock_timeout=module.params["lock_timeout"],
        check_mode=module.check_mode,
    )
    try:
        result = perform(machine, module.params)
    except PROBLEMS as error:
        module.fail_json(msg=str(error), refused=True)
    except OSError as error:
        module.fail_json(
            msg=f"The step {module.params['action']} cannot be taken: {error}. It writes to /var/lib/firstlight and "
            "/etc: run with become, and make room",
            refused=True,
        )
    except (LookupError, TypeError, ValueError) as error:
        # Not cut off, so the controller must not ask again: the journal or a parameter is not what it should be.
        module.fail_json(
            msg=f"The step {module.params['action']} cannot be taken: {type(error).__name__} {error}. Expected a "
            f"journal and parameters of this release of Firstlight: see {machine.journals.path}",
            refused=True,
        )
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
