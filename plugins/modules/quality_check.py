#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: quality_check
short_description: Say whether a server still gives the answers that were accepted
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Has the server of the task's host, which is the head, asked the fixed prompts of the catalog by
    M(firstlight.cluster.completions), keeps the answers on the controller, and assesses them by the answers that were
    accepted for the model, for another revision of it, or for the same model in another precision.
    Every host must have its plan.
  - Answers that became worse, or a server that does not answer, are a result and no failure of the task.
  - An action of the same name does all of it; nothing of this module runs on a host.
options:
  accept:
    description: Ask twice, and keep the answers as those that later ones are compared with.
    type: bool
    default: false
  baseline:
    description: Ask twice, and keep the answers for a comparison by O(reference) later in the same run.
    type: bool
    default: false
  gate:
    description: >-
      Ask only where C(firstlight_quality.gate) is true or, where it is not set, there are answers to compare with.
    type: bool
    default: false
  reference:
    description: A file of the controller with answers to compare with, in place of the accepted ones.
    type: str
    default: ""
  document:
    description: A file of the controller into which the assessment is written, too.
    type: str
    default: ""
  answers_document:
    description: A file of the controller into which the answers are written, too.
    type: str
    default: ""
  plan:
    description: The variable that has each host's plan.
    type: str
    default: firstlight_plan
  timeout:
    description: Seconds for one answer.
    type: int
    default: 120
attributes:
  check_mode:
    description: Asks nothing, and writes nothing.
    support: full
  diff_mode:
    description: There is nothing to compare with.
    support: none
"""

EXAMPLES = r"""
- name: See whether the answers are still right
  firstlight.cluster.quality_check:
  register: quality
"""

RETURN = r"""
asked:
  description: Whether the server was asked.
  type: bool
  returned: success
assessment:
  description: What the answers come to, as docs/quality.md has it.
  type: dict
  returned: when the server was asked
  sample: {"status": "same", "exact_match": 1.0, "token_agreement": 1.0}
answers:
  description: The file of the controller with the answers; empty where nothing was asked.
  type: str
  returned: success
  sample: /home/me/.local/state/firstlight/mine/quality/answers/20261118T083000Z-1f3a.json
lines:
  description: The assessment for people.
  type: list
  elements: str
  returned: success
  sample: ["same: 45 prompts, exact match 100.0%, token agreement 100.0%, beside the answers of 2026-11-18"]
problem:
  description: Why a change must not be kept, as the answers are worse or there are none; empty where it may.
  type: str
  returned: success
  sample: ""
"""
