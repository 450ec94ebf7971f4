# SPDX-License-Identifier: Apache-2.0
"""A role's state from its variables, as they stand for a host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import lookup_loader
from ansible.template import Templar, trust_as_template
from ansible_collections.firstlight.cluster.plugins.lookup.desired_state import _types
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES, desired_state

ROOT = Path(__file__).parents[4]
TUNING: dict[str, Any] = yaml.safe_load((ROOT / "roles/host_tuning/defaults/main.yml").read_text(encoding="utf-8"))


def look_up(role: str, variables: dict[str, Any], **options: Any) -> dict[str, Any]:
    templar = Templar(loader=DataLoader(), variables=variables)
    plugin = lookup_loader.get("firstlight.cluster.desired_state", loader=DataLoader(), templar=templar)
    found: list[dict[str, Any]] = plugin.run([role], variables=variables, **options)
    return found[0]


def test_variables_become_a_state() -> None:
    own = {"some_swappiness": 7, "host_tuning_swappiness": trust_as_template("{{ some_swappiness }}"), "other": 1}
    assert look_up("host_tuning", TUNING | own) == desired_state("host_tuning", TUNING | {"host_tuning_swappiness": 7})


def test_words_on_the_command_line_are_true_or_false() -> None:
    """`-e host_tuning_x=false` is a string, which would be true."""
    name = next(name for name, value in TUNING.items() if value is True)
    assert look_up("host_tuning", TUNING | {name: "false"}) == look_up("host_tuning", TUNING | {name: False})
    assert look_up("host_tuning", TUNING | {name: "false"}) != look_up("host_tuning", TUNING)


def test_values_in_place_of_variables() -> None:
    assert look_up("host_tuning", TUNING, override={"host_tuning_swappiness": 3}) == look_up(
        "host_tuning", TUNING | {"host_tuning_swappiness": 3}
    )


@pytest.mark.parametrize(
    ("variables", "role", "words"),
    [
        ({}, "host_tuning", "needs the variable 'host_tuning_state'"),
        ({}, "gpu_driver", "known roles"),
        (TUNING | {"host_tuning_swappiness": "many"}, "host_tuning", "many"),
    ],
)
def test_it_says_what_it_needs(variables: dict[str, Any], role: str, words: str) -> None:
    with pytest.raises(AnsibleLookupError, match=words):
        look_up(role, variables)


@pytest.mark.parametrize("role", ROLES)
def test_a_secret_is_not_even_read(role: str) -> None:
    specs = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text(encoding="utf-8"))
    options = specs["argument_specs"]["main"]["options"]
    assert _types(role).keys() == {name for name, option in options.items() if not option.get("no_log")}
