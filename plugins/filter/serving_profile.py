# SPDX-License-Identifier: Apache-2.0
"""Filter serving_profile: what a role must know of a profile, by data instead of by its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_description import PROFILES

DOCUMENTATION = r"""
name: serving_profile
author: The Firstlight authors (!UNKNOWN)
version_added: "0.1.0"
short_description: What a way to launch an engine needs
description:
  - Takes the name of a profile and returns its engine, and whether its server has a rank on every host, drives Ray, is
    started by MPI, or is several servers behind one address.
options:
  _input:
    description: The name of the profile.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Ask the server as its engine answers
  firstlight.cluster.chat_completion:
    url: http://127.0.0.1:290
    model: tiny
    expect_tensor_parallel: 4
    engine: "{{ ('sglang' | firstlight.cluster.serving_profile).engine }}"
"""

RETURN = r"""
_value:
  description: The fields of the profile, as C(engine), C(ranked), C(on_ray), C(by_mpi) and C(replicated).
  type: dict
"""


def serving_profile(name: object) -> dict[str, Any]:
    """The fields of a profile."""
    profile = PROFILES.get(str(name))
    if profile is None:
        raise AnsibleFilterError(f"{str(name)!r} is no profile, expected one of {', '.join(PROFILES)}")
    return dataclasses.asdict(profile)


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"serving_profile": serving_profile}
