# SPDX-License-Identifier: Apache-2.0
"""Values of role variables are compared with the roles' own argument specifications, before a role starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanError, PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.role_values import check_role_values
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import RoleInterface, load_roles

ROLES_DIRECTORY = Path(__file__).parents[5] / "roles"
INTERFACES = load_roles(ROLES_DIRECTORY, ROLES)
OF_ALL: dict[str, Any] = {
    "x_text": {"type": "str"},
    "x_path": {"type": "path"},
    "x_count": {"type": "int"},
    "x_share": {"type": "float"},
    "x_wanted": {"type": "bool"},
    "x_way": {"type": "str", "choices": ["left", "right"]},
    "x_names": {"type": "list", "elements": "str"},
    "x_ports": {"type": "list", "elements": "dict", "options": {"port": {"type": "int"}, "name": {}}},
    "x_any": {"type": "raw"},
    "x_api_key": {"type": "int"},
}
ONE = {"x": RoleInterface(options=OF_ALL)}


def check(*variables: dict[str, Any], roles: dict[str, RoleInterface] = ONE) -> list[PlanError]:
    errors = PlanErrors()
    hosts = [HostIntent(f"n{at}", variables=given) for at, given in enumerate(variables, 1)]
    check_role_values(hosts, roles, errors)
    assert {one["id"] for one in errors.found} <= {"role.value"}
    return errors.found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x_text", "a"),
        ("x_text", 5),
        ("x_path", "/a"),
        ("x_count", 5),
        ("x_count", "-5"),
        ("x_share", 1),
        ("x_share", "0.5"),
        ("x_wanted", False),
        ("x_wanted", "yes"),
        ("x_wanted", 1),
        ("x_way", "left"),
        ("x_names", []),
        ("x_names", ["a", 1]),
        ("x_ports", [{"port": "22", "name": None}]),
        ("x_any", {"a": [None]}),
    ],
)
def test_what_ansible_takes_is_taken(name: str, value: Any) -> None:
    assert check({name: value}) == []


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("x_text", ["a"], "x_text of n1 is ['a']"),
        ("x_text", None, "x_text of n1 has no value"),
        ("x_count", "many", "x_count of n1 is 'many'"),
        ("x_count", 2.5, "x_count of n1 is 2.5"),
        ("x_count", True, "x_count of n1 is True"),
        ("x_share", "half", "x_share of n1 is 'half'"),
        ("x_wanted", "maybe", "x_wanted of n1 is 'maybe'"),
        ("x_wanted", 2, "x_wanted of n1 is 2"),
        ("x_way", "lft", "x_way of n1 is 'lft'"),
        ("x_names", "a,b", "x_names of n1 is 'a,b'"),
        ("x_names", ["a", {}], "x_names[1] of n1 is {}"),
        ("x_ports", [{"port": "ssh"}], "x_ports[0].port of n1 is 'ssh'"),
        ("x_ports", [{"prot": 22}], "x_ports[0] of n1 has a key 'prot'"),
        ("x_api_key", "hunter2", "x_api_key of n1 is a value that is not shown"),
    ],
)
def test_anything_else_is_refused(name: str, value: Any, found: str) -> None:
    (one,) = check({name: value})
    assert one["found"] == found
    assert one["rule"]
    assert one["remedy"]


def test_a_value_of_several_hosts_is_said_once() -> None:
    assert len(check({"x_count": "a"}, {"x_count": "a"}, {"x_count": "b"})) == 2
    assert [one["found"] for one in check({"x_wanted": True}, {"x_wanted": 2})] == ["x_wanted of n2 is 2"]


def test_the_nearest_choice_is_offered() -> None:
    (one,) = check({"nvidia_driver_policy": "instal"}, roles=INTERFACES)
    assert one["remedy"] == "did you mean install?"
    (one,) = check({"nvidia_driver_reboot_ok": "maybe"}, roles=INTERFACES)
    assert one["rule"] == "it is true or false"


@pytest.mark.parametrize("role", ROLES)
def test_every_default_passes_its_own_specification(role: str) -> None:
    assert check(INTERFACES[role].defaults, roles=INTERFACES) == []
