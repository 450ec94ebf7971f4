# SPDX-License-Identifier: Apache-2.0
"""A playbook without hosts is an error, whatever ansible.cfg says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import constants, context
from ansible.errors import AnsibleLookupError
from ansible.module_utils.common.collections import ImmutableDict
from ansible.plugins.loader import lookup_loader

PLAYBOOKS = Path(__file__).parents[4] / "playbooks"
IMPORT = "ansible.builtin.import_playbook"
GROUPS = {"all": ["a", "b", "login"], "cluster": ["a", "b"], "rack_a": ["a"]}


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Ansible does without any ansible.cfg."""
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict())
    monkeypatch.setitem(vars(constants), "INVENTORY_ANY_UNPARSED_IS_FAILED", False)


def look_up(group: str = "cluster", **variables: Any) -> list[str]:
    found: list[str] = lookup_loader.get("firstlight.cluster.require_hosts").run([group], variables=variables)
    return found


def refused(**variables: Any) -> str:
    with pytest.raises(AnsibleLookupError) as error:
        look_up(**variables)
    return str(error.value)


def test_a_group_with_hosts_is_given_back() -> None:
    assert look_up(groups=GROUPS) == ["cluster"]
    assert look_up("rack_a", groups=GROUPS) == ["rack_a"]


def test_a_group_without_hosts_is_refused() -> None:
    told = refused(groups={"all": []}, ansible_inventory_sources=["a,"])
    assert told == (
        "Group cluster of inventory a, has no hosts; expected the hosts of the cluster in it: "
        "list them under cluster, or correct -i."
    )
    assert "rename group clusters to cluster" in refused(groups={"clusters": ["a"]})


def test_an_inventory_that_does_not_exist_is_refused_though_another_has_hosts(tmp_path: Path) -> None:
    sources = ["a,b", str(tmp_path / "absent")]
    assert f"Inventory {sources[1]} does not exist" in refused(groups=GROUPS, ansible_inventory_sources=sources)


def test_an_inventory_that_is_read_in_part_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("cluster: {hosts: {a: }}\n")
    (tmp_path / "known_hosts").write_text("a ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAwm\n")
    assert look_up(groups=GROUPS, ansible_inventory_sources=[str(tmp_path)]) == ["cluster"]
    assert vars(constants)["INVENTORY_ANY_UNPARSED_IS_FAILED"] is False
    bad = tmp_path / "more"
    bad.mkdir()
    (bad / "b.yml").write_text("cluster: [\n")
    told = refused(groups=GROUPS, ansible_inventory_sources=[str(tmp_path), str(bad)])
    assert "hosts in it would be left out" in told
    assert str(bad / "b.yml") in told


@pytest.mark.parametrize("limit", ["a", "rack_a", "all:!a", "cluster,!a", "b*"])
def test_a_limit_may_leave_some_hosts(limit: str) -> None:
    assert look_up(groups=GROUPS, ansible_limit=limit) == ["cluster"]


@pytest.mark.parametrize("limit", ["login", "rack_a:!a"])
def test_a_limit_may_not_leave_none(limit: str) -> None:
    told = refused(groups=GROUPS, ansible_limit=limit)
    assert f"--limit {limit} leaves none of the 2 hosts of group cluster" in told


@pytest.mark.parametrize("option", ["syntax", "listtasks"])
def test_a_look_at_a_playbook_needs_no_hosts(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict({option: True}))
    assert look_up(groups={}) == ["cluster"]


def test_a_phase_in_which_nobody_has_anything_to_do_has_no_hosts() -> None:
    def hosts(steps: list[str]) -> list[str]:
        facts = {"firstlight_plan": {"roles": {}}, "firstlight_steps": steps}
        known = {"hostvars": {"a": facts, "b": {}}, "groups": GROUPS, "ansible_play_hosts_all": ["a", "b", "login"]}
        plugin = lookup_loader.get("firstlight.cluster.require_hosts")
        found: list[str] = plugin.run(["cluster"], variables=known, phase="host_tuning")
        return found

    assert hosts([]) == []
    assert hosts(["host_tuning"]) == ["cluster"], "any_errors_fatal is for the hosts of a play"


def test_before_there_is_a_plan_a_phase_is_for_all() -> None:
    plugin = lookup_loader.get("firstlight.cluster.require_hosts")
    known = {"hostvars": {"a": {}, "b": {}}, "ansible_play_hosts_all": ["a", "b"]}
    assert plugin.run(["cluster"], variables={**known, "groups": GROUPS}, phase="fabric") == ["cluster"]
    with pytest.raises(AnsibleLookupError, match="has no hosts"):
        plugin.run(["cluster"], variables={**known, "groups": {}}, phase="fabric")


def test_a_secret_that_the_play_was_given_is_compared() -> None:
    """As by `import_playbook` with `vars`: the variables of no host have it."""
    plan = {"cluster": {"head": "a"}, "host": {"is_head": True}, "roles": {}}
    facts = {"firstlight_plan": plan, "firstlight_pending": {}, "firstlight_steps": []}
    groups = {"cluster": ["a"], "head": ["a"]}
    known = {"hostvars": {"a": facts}, "groups": groups, "ansible_play_hosts_all": ["a"]}
    plugin = lookup_loader.get("firstlight.cluster.require_hosts")
    assert plugin.run(["cluster"], variables=known, phase="ray") == []
    assert plugin.run(["cluster"], variables={**known, "inference_server_api_key": "k"}, phase="ray") == ["cluster"]


def test_where_plays_are_only_listed_a_phase_is_for_all() -> None:
    """`--list-hosts` has no variables of hosts at all, as the first play of a run."""
    plugin = lookup_loader.get("firstlight.cluster.require_hosts")
    known = {"groups": GROUPS, "ansible_play_hosts_all": ["a", "b"]}
    assert plugin.run(["cluster"], variables=known, phase="fabric") == ["cluster"]


def first_hosts(playbook: Path) -> str:
    first = yaml.safe_load(playbook.read_text(encoding="utf-8"))[0]
    if IMPORT in first:
        return first_hosts(PLAYBOOKS / f"{first[IMPORT].removeprefix('firstlight.cluster.')}.yml")
    return str(first["hosts"])


@pytest.mark.parametrize("playbook", sorted(PLAYBOOKS.glob("*.yml")), ids=lambda path: path.stem)
def test_every_playbook_begins_with_it(playbook: Path) -> None:
    assert re.match(r"{{ (lookup|query)\('firstlight.cluster.require_hosts', '", first_hosts(playbook))


@pytest.mark.slow  # Ansible's own program, elsewhere
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["ansible-playbook", "firstlight.cluster.site"], "Inventory {}/absent does not exist"),
        (["firstlight", "collect"], "the inventory absent does not exist"),
    ],
)
def test_elsewhere_an_absent_inventory_fails(tmp_path: Path, words: list[str], named: str) -> None:
    program = str(Path(sys.executable).with_name(words[0]))
    done = subprocess.run(
        [program, *words[1:], "-i", "absent"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert named.format(tmp_path) in done.stderr
