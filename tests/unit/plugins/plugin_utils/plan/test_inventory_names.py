# SPDX-License-Identifier: Apache-2.0
"""No known name, misspelt by one letter, is accepted anywhere in an inventory; an owner's own names are."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanError, PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.firewall_rules import OPENING_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import (
    HOST_KEYS,
    RACK,
    HostIntent,
    read_host,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.bench.intent import read_bench
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.inventory_names import (
    CONNECTION,
    GROUPS,
    MAPPINGS,
    check_groups,
    check_names,
    one_edit,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import INTENT_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import check_intent, choose
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.role_values import check_role_values
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.role_variables import check_role_variables
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.quality import read_quality
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.document import FILE_KEYS, RACK_KEYS, read_racks
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import load_roles
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.examples import examples

ROOT = Path(__file__).parents[5]
CATALOG = load_catalog([ROOT / "catalog"])
INTERFACES = load_roles(ROOT / "roles", ROLES)
OPTIONS = {name: option for role in INTERFACES.values() for name, option in role.options.items()}
ROLE_VARIABLES = sorted({name for role in INTERFACES.values() for name in role.variables})
VARIABLES = (*INTENT_KEYS, *HOST_KEYS, *CONNECTION, *ROLE_VARIABLES)
LETTERS = string.ascii_lowercase + string.digits + "_-"


@st.composite
def slips(draw: st.DrawFn, name: str) -> str:
    """The name with one letter more, less or another, or two in each other's place."""
    at, letter = draw(st.integers(0, len(name) - 1)), draw(st.sampled_from(LETTERS))
    ways = (
        name[:at] + letter + name[at:],
        name + letter,
        name[:at] + name[at + 1 :],
        name[:at] + letter + name[at + 1 :],
        name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
    )
    slip = draw(st.sampled_from(ways))
    assume(slip not in ("", name))
    return slip


def hosts(variables: Mapping[str, Any]) -> list[HostIntent]:
    return [
        read_host("a", ["cluster", "head"], variables, variables.__getitem__, ROLES),
        read_host("b", ["cluster", "workers"], variables, variables.__getitem__, ROLES),
    ]


def refused(variables: Mapping[str, Any]) -> list[PlanError]:
    """What is said of names and of the values of roles."""
    errors, found = PlanErrors(), hosts(variables)
    check_intent(found[0].intent, found, errors)
    check_role_variables(found, INTERFACES, errors)
    check_role_values(found, INTERFACES, errors)
    check_names(found, ROLE_VARIABLES, errors)
    return [one for one in errors.found if one["id"] not in ("intent.missing", "role.evaluated")]


def chosen(variables: Mapping[str, Any]) -> list[PlanError]:
    """What is said of the keys of mappings."""
    errors, found = PlanErrors(), hosts(variables)
    choose(found[0].intent, CATALOG, found, None, errors, PlanErrors())
    read_bench(found[0].intent, {}, None, errors)
    read_quality(found[0].intent, errors)
    return errors.found


def assert_named(found: list[PlanError], slip: str, name: str) -> None:
    """One error has the name that was written, and offers the one that was meant, or another that is as near."""
    said = [one for one in found if slip in one["found"]]
    assert said, f"{slip} for {name} is accepted"
    words = {word.strip("?,;.") for one in said for word in f"{one['rule']} {one['remedy']}".split()}
    assert name in words or any(one_edit(slip, word) for word in words), said


@pytest.mark.slow  # some hundred names
@examples(400)
@given(st.data())
def test_a_misspelt_variable_is_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(VARIABLES))
    slip = data.draw(slips(name))
    assume(slip not in VARIABLES)
    assert_named(refused({slip: "x"}), slip, name)


def nested(*path: str | int) -> Callable[[str], dict[str, Any]]:
    """A variable with a key at the end of the path; a number on it is a list."""

    def build(key: str) -> dict[str, Any]:
        value: Any = {key: "x"}
        for part in reversed(path[1:]):
            value = [value] if isinstance(part, int) else {part: value}
        return {str(path[0]): value}

    return build


KEYS: list[tuple[Callable[[str], dict[str, Any]], tuple[str, ...]]] = [
    *((nested(name), tuple(keys)) for name, keys in MAPPINGS.items() if name != RACK),
    (lambda key: {RACK: {"name": "a", key: "x"}}, tuple(MAPPINGS[RACK])),
    (nested("firstlight_serving", "speculative"), ("method", "tokens")),
    (nested("firstlight_fabric", "minimum_bandwidth"), ("tcp_gbit", "rdma_gbit")),
    (nested("firstlight_fabric", "qos"), ("priority", "dscp")),
    (nested("firstlight_fabric", "rails", 0), ("port", "subnet")),
    (nested("firstlight_firewall", "open", 0), tuple(OPENING_KEYS)),
    (nested("firstlight_sources", "cuda-repository"), ("uris", "directory", "suites", "key_file", "fingerprint")),
    (lambda key: {"firstlight_image_archive": {key: "x"}}, ("path", "on")),
]


@pytest.mark.slow  # some hundred keys
@examples(300)
@given(st.data())
def test_a_misspelt_key_of_a_mapping_is_refused(data: st.DataObject) -> None:
    build, known = data.draw(st.sampled_from(KEYS))
    name = data.draw(st.sampled_from(known))
    slip = data.draw(slips(name))
    assume(slip not in known)
    assert any(slip in one["found"] for one in chosen(build(slip))), f"{build(slip)} is accepted"


@examples(200)
@given(st.data())
def test_a_misspelt_key_of_a_role_variable_is_refused(data: st.DataObject) -> None:
    variable = data.draw(st.sampled_from([name for name, option in OPTIONS.items() if option.get("options")]))
    option = OPTIONS[variable]
    name = data.draw(st.sampled_from(sorted(option["options"])))
    slip = data.draw(slips(name))
    assume(slip not in option["options"])
    value: Any = [{slip: "x"}] if option["type"] == "list" else {slip: "x"}
    assert_named(refused({variable: value}), slip, name)


@examples(200)
@given(st.data())
def test_a_misspelt_group_is_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*GROUPS, "rack_a", "rack_b2"]))
    slip = data.draw(slips(name))
    # Another rack is another rack, and `racks` may be the group of all of them.
    assume(slip not in GROUPS and not slip.startswith("rack_") and slip not in ("racks", "rack"))
    errors = PlanErrors()
    check_groups(["all", "ungrouped", *GROUPS, slip], errors)
    (one,) = errors.found
    assert one["id"] == "inventory.group"
    assert f"group {slip}" in one["found"]


@examples(200)
@given(st.data())
def test_a_misspelt_key_of_a_rack_file_is_refused(data: st.DataObject) -> None:
    of_rack = data.draw(st.booleans())
    known = RACK_KEYS if of_rack else FILE_KEYS
    name = data.draw(st.sampled_from(known))
    slip = data.draw(slips(name))
    assume(slip not in known)
    document: dict[str, Any] = {
        "plugin": "firstlight.cluster.rack",
        "racks": [{"name": "a", "prefix": "a", "count": 1}],
    }
    (document["racks"][0] if of_rack else document)[slip] = 1
    errors = PlanErrors()
    read_racks(document, errors)
    assert any(repr(slip) in one["found"] for one in errors.found), f"{slip} for {name} is accepted"


OWN = (
    "my_site",
    "rack_contact",
    "site_ntp",
    "node_exporter_port",
    "datacenter",
    "ntp_servers",
    "zfs_pool",
    "backup_host",
)


def test_an_owner_has_variables_and_groups_of_their_own() -> None:
    assert refused(dict.fromkeys(OWN, "x")) == []
    errors = PlanErrors()
    check_groups(["all", "ungrouped", *GROUPS, "rack_a", "racks", "cluster_lab", "gpu_nodes", "login", "dc1"], errors)
    assert errors.found == []


def test_what_ansible_itself_sets_is_no_slip() -> None:
    magic = (
        "ansible_check_mode",
        "ansible_config_file",
        "ansible_diff_mode",
        "ansible_facts",
        "ansible_forks",
        "ansible_inventory_sources",
        "ansible_limit",
        "ansible_playbook_python",
        "ansible_run_tags",
        "ansible_skip_tags",
        "ansible_verbosity",
        "ansible_version",
        "group_names",
        "groups",
        "hostvars",
        "inventory_dir",
        "inventory_file",
        "inventory_hostname",
        "inventory_hostname_short",
        "omit",
        "playbook_dir",
        "role_names",
        "environment",
    )
    assert refused({name: {} for name in magic}) == []


def test_a_gathered_fact_is_no_slip() -> None:
    variables = {"ansible_facts": {"hostname": "a"}, "ansible_hostname": "a"}
    assert refused(variables) == []
    (one,) = refused({"ansible_hostname": "10.0.0.1"})
    assert (one["id"], one["remedy"].split("?")[0]) == ("intent.misspelt", "did you mean ansible_host")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("firstligth_modell", "firstlight_model"),
        ("FIRSTLIGHT_MODEL", "firstlight_model"),
        ("Ansible_Host", "ansible_host"),
        ("ansible_username", "ansible_user"),
        ("_firstlight_model", "firstlight_model"),
    ],
)
def test_other_slips(name: str, meant: str) -> None:
    (one,) = refused({name: "x"})
    assert f"did you mean {meant}?" in one["remedy"]


def test_a_block_that_lost_its_indentation_is_one_error() -> None:
    (one,) = refused({"firstlight_serving": None, "tensor_parallel": 4, "port": 290})
    assert one["id"] == "intent.indentation"
    assert one["found"] == "port and tensor_parallel are at the top level, and firstlight_serving has no value"
    assert one["remedy"].startswith("indent them below firstlight_serving;")


def test_a_key_by_itself_is_told_where_it_belongs() -> None:
    (one,) = refused({"rails": []})
    assert one["found"] == "rails is at the top level"
    assert "indent it below firstlight_fabric" in one["remedy"]
    (one,) = refused({"listen": "::"})
    assert "firstlight_serving or firstlight_endpoint" in one["rule"]


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_mapping_without_a_value_is_refused(name: str) -> None:
    (one,) = refused({name: None})
    assert (one["id"], one["found"]) == ("intent.indentation", f"{name} has no value")
    assert not any(one["id"] == "intent.indentation" for one in refused({name: {}}))
