#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action `repin_move`, which runs on the controller (plugins/action/repin_move.py)."""

from __future__ import annotations

DOCUMENTATION = r"""
module: repin_move
short_description: Drive a host's move to another set of packages to its verdict
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Takes the steps of M(firstlight.cluster.repin_host) in the order that the host's journal asks for, from C(drained)
    to C(verified). It begins wherever the journal is, so it also goes on with a move that another controller left.
  - Installs the set from the packages kept on the host, reboots where the loaded driver is not the installed one, waits
    for the boot, and verifies the host with the same observation and comparison as a bring-up.
  - A step that fails, or a verification that does not hold within O(gate_timeout), turns the move back by itself. The
    former set is installed and verified, and the host ends at C(rolled-back).
  - Where the way back does not hold either, the host stays drained and the result says so.
  - A host that goes away in the middle of a step is asked again where it is. One that does not come back is lost, and
    its journal tells the next run where to go on.
  - A bad outcome does not fail the task; the playbook decides for the whole group.
options:
  direction:
    description: V(back) moves the host back from wherever it is, also one that is verified already.
    type: str
    choices: [forward, back]
    default: forward
  reason:
    description: Why a host that did not fail itself is moved back, for its journal.
    type: str
    default: ""
  verify:
    description:
      - Desired states by role. Driver, CUDA toolkit, container runtime and the GPUs have to hold on the new set, as a
        bring-up verifies them.
    type: dict
    default: {}
  verify_back:
    description:
      - Desired states by role, of which only what no package brings has to hold on the former set. What the journal
        recorded always has to.
    type: dict
    default: {}
  reboot_timeout:
    description: Seconds a host may take to come back from a reboot.
    type: int
    default: 900
  answer_timeout:
    description: Seconds each probe of the verification may take.
    type: int
    default: 30
  gate_timeout:
    description: Seconds until the verification has to hold; units start after a boot.
    type: int
    default: 180
  lost_timeout:
    description: Seconds a host may be silent when no reboot was asked for.
    type: int
    default: 120
  timeout:
    description: Seconds each call of apt may take.
    type: int
    default: 1800
  lock_timeout:
    description: Seconds to wait for another run of apt on the host.
    type: int
    default: 600
attributes:
  check_mode:
    description: Says which step would be next and takes none.
    support: full
  diff_mode:
    description: The timeline is in the result.
    support: none
  idempotent:
    description: A host that has its verdict is left alone.
    support: full
"""

EXAMPLES = r"""
- name: Move the host
  firstlight.cluster.repin_move:
    verify: "{{ firstlight_plan.desired }}"
    reboot_timeout: 1200
  register: __move

- name: Put the host back with its group
  firstlight.cluster.repin_move:
    direction: back
    reason: spark1 failed
"""

RETURN = r"""
outcome:
  description: >-
    V(verified) on the new set, V(rolled-back) on the former one, V(failed) where neither could be verified, V(lost)
    where the host does not answer; empty in check mode.
  returned: always
  type: str
  sample: verified
problem:
  description: What went wrong, empty when the host is verified.
  returned: always
  type: str
  sample: "failed at booted: loaded driver module is none, expected 580.126.09"
problems:
  description: What did not hold, in sentences, where more is known than in C(problem).
  returned: always
  type: list
  elements: str
  sample: []
timeline:
  description: The entries of the journal with the seconds since its first one.
  returned: always
  type: list
  elements: dict
  sample: [{"at": "2026-11-15T09:00:00Z", "state": "planned", "direction": "forward", "seconds_since_start": 0,
            "detail": {}}]
journal:
  description: The journal as it was seen last.
  returned: always
  type: dict
  sample: {"id": "20261115T090000Z-b"}
unchanged_host:
  description: Whether the host was put back before any package could have changed.
  returned: not in check mode
  type: bool
  sample: false
would:
  description: The next step.
  returned: in check mode
  type: list
  elements: str
  sample: ["installing"]
"""
