# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import json
from typing import Any, ClassVar

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import content_digest, subjects
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import (
    differences,
    differences_by_role,
    explain,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES, desired_state
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ideal import ideal

NAMES = st.text(alphabet="abcdefgh-./0123456789", min_size=1, max_size=12)
MODES = st.sampled_from(["0644", "0600", "0755", "644"])


@st.composite
def desired_states(draw: st.DrawFn) -> dict[str, Any]:
    def some(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.dictionaries(NAMES, values, min_size=1, max_size=3))

    flags = st.fixed_dictionaries(
        {}, optional={"enabled": st.booleans(), "active": st.booleans(), "if_present": st.booleans()}
    )
    owned: dict[str, st.SearchStrategy[Any]] = {"mode": MODES, "owner": NAMES, "group": NAMES}
    kinds = {
        "packages": st.none() | NAMES,
        "files": st.fixed_dictionaries({"content": st.text(max_size=20), **owned})
        | st.fixed_dictionaries({"secret": st.just(True), "same_as": st.sampled_from([None, "head"]), **owned}),
        "sysctl": st.integers(0, 99).map(str),
        "units": flags,
        "links": st.fixed_dictionaries(
            {}, optional={"mtu": st.integers(1280, 9216), "addresses": st.lists(NAMES), "up": st.booleans()}
        ),
        "images": st.fixed_dictionaries(
            {}, optional={"reference": NAMES, "requires": st.dictionaries(NAMES, NAMES), "same_as": st.none()}
        ),
        "containers": st.fixed_dictionaries({"image": NAMES, "running": st.booleans()}),
        "snapshots": st.fixed_dictionaries(
            {"repository": NAMES, "revision": NAMES}, optional={"selection": st.just({"exclude": ["original/*"]})}
        ),
        "venvs": st.fixed_dictionaries({"lock": NAMES}),
        "disk_free": st.integers(0, 10**12),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), unique=True))
    state = {kind: some(kinds[kind]) for kind in chosen}
    if draw(st.booleans()):
        state["default_target"] = "multi-user.target"
    if draw(st.booleans()):
        state["gpus"] = {"count": draw(st.integers(1, 8)), "name": "NVIDIA GB10"}
    if draw(st.booleans()):
        state["distributions"] = [{"distribution": "ubuntu", "version": "24.04"}]
    return state


def head_with(state: dict[str, Any]) -> dict[str, Any]:
    return {"head": {"files": {path: {"sha256": "0" * 64} for path in state.get("files", {})}}}


@pytest.mark.slow  # every example is a whole state
@given(desired_states())
def test_a_host_on_which_the_state_holds_has_no_differences(state: dict[str, Any]) -> None:
    peers = head_with(state)
    assert differences(state, ideal(state, peers), peers) == []


@pytest.mark.slow  # every example is a whole state
@given(desired_states())
def test_a_host_nothing_is_known_of_differs_in_everything(state: dict[str, Any]) -> None:
    named = sum(
        1 if kind in ("gpus", "default_target", "distributions") else len(items) for kind, items in state.items()
    )
    found = differences(state, {})
    assert len(found) == named
    assert json.loads(json.dumps(found)) == found
    assert all(isinstance(line, str) and "\n" not in line for line in explain(found))


@pytest.mark.slow  # every example is a whole state
@given(desired_states())
def test_subjects_name_everything_a_state_asks_for(state: dict[str, Any]) -> None:
    assert set(subjects({"role": state})) == set(state)


@pytest.mark.parametrize(
    ("state", "observed", "sentence"),
    [
        (
            {"sysctl": {"vm.swappiness": "1"}},
            {"sysctl": {"vm.swappiness": "60"}},
            "sysctl vm.swappiness is 60, expected 1",
        ),
        (
            {"packages": {"docker.io": "20.10"}},
            {"packages": {"docker.io": None}},
            "package docker.io is not installed, expected version 20.10",
        ),
        (
            {"packages": {"docker.io": None}},
            {"packages": {"docker.io": None}},
            "package docker.io is not installed, expected installed",
        ),
        (
            {"units": {"docker.service": {"active": True}}},
            {"units": {"docker.service": {"load": "loaded", "enabled": True, "active": False, "sub": "dead"}}},
            "unit docker.service has active no, sub dead, expected active yes",
        ),
        (
            {"units": {"docker.service": {"active": True}}},
            {"units": {"docker.service": {"load": "not-found"}}},
            "unit docker.service is not installed, expected active yes",
        ),
        (
            {"links": {"enp1": {"mtu": 9000, "addresses": ["192.168.100.10/24"]}}},
            {"links": {"enp1": {"exists": True, "mtu": 1500, "addresses": [], "up": True}}},
            "link enp1 has mtu 1500, addresses none, expected mtu 9000, addresses 192.168.100.10/24",
        ),
        (
            {"links": {"enp1": {"addresses": ["192.168.100.11/24"]}}},
            {
                "links": {
                    "enp1": {"exists": True, "addresses": ["192.168.100.10/24", "192.168.100.11/24", "fe80::1/64"]}
                }
            },
            (
                "link enp1 has addresses 192.168.100.10/24 192.168.100.11/24 fe80::1/64, "
                "expected addresses 192.168.100.11/24"
            ),
        ),
        (
            {"links": {"enp1": {}}},
            {"links": {"enp1": {"exists": False}}},
            "link enp1 is missing, expected it to exist",
        ),
        (
            {"gpus": {"count": 4, "name": "NVIDIA H100 80GB HBM3"}},
            {"gpus": {"count": 3, "names": ["NVIDIA H100 80GB HBM3"] * 3, "error": None}},
            "GPUs found are 3 (NVIDIA H100 80GB HBM3), expected 4 NVIDIA H100 80GB HBM3",
        ),
        (
            {"gpus": {"count": 1, "name": "NVIDIA GB10"}},
            {"gpus": {"count": 0, "names": [], "error": "nvidia-smi is not installed"}},
            "GPUs cannot be read (nvidia-smi is not installed), expected 1 NVIDIA GB10",
        ),
        (
            {"snapshots": {"/m": {"repository": "a/b", "revision": "c"}}},
            {"snapshots": {"/m": {"verified": False, "reason": "x.safetensors is missing"}}},
            "snapshot /m is not verified (x.safetensors is missing), expected a/b at c",
        ),
        (
            {"snapshots": {"/m": {"repository": "a/b", "revision": "c"}}},
            {"snapshots": {"/m": {"verified": True, "repository": "a/b", "revision": "d", "reason": ""}}},
            "snapshot /m is a/b at d, expected a/b at c",
        ),
        (
            {"snapshots": {"/m": {"repository": "a/b", "revision": "c", "selection": {"exclude": ["x"]}}}},
            {
                "snapshots": {
                    "/m": {
                        "verified": True,
                        "repository": "a/b",
                        "revision": "c",
                        "reason": "",
                        "files": ["a"],
                        "left_out": ["x", "y.pt", "z.pt"],
                    }
                }
            },
            "snapshot /m was fetched without y.pt and 1 more, which the engine is to load, expected a/b at c",
        ),
        (
            {"images": {"r@sha256:1": {}}},
            {"images": {"r@sha256:1": {"exists": False, "id": None, "record": None}}},
            "image r@sha256:1 is not present, expected present",
        ),
        (
            {"containers": {"ray": {"image": "new", "running": True}}},
            {"containers": {"ray": {"exists": True, "running": True, "image": "old"}}},
            "container ray has image old, expected image new",
        ),
        (
            {"distributions": [{"distribution": "ubuntu", "version": "24.04"}]},
            {"facts": {"distribution": "debian", "version": "12"}},
            "distribution is debian 12, expected ubuntu 24.04",
        ),
        (
            {"disk_free": {"/m": 2_000_000_000}},
            {"facts": {"disk_free": {"/m": 1_000_000_000}}},
            "free space at /m is 1.0 GB, expected at least 2.0 GB",
        ),
        (
            {"default_target": "multi-user.target"},
            {"default_target": "graphical.target"},
            "default boot target is graphical.target, expected multi-user.target",
        ),
        (
            {"files": {"/f": {"content": "a", "mode": "0644"}}},
            {"files": {"/f": {"exists": True, "sha256": content_digest("a"), "mode": "0600"}}},
            "file /f has mode 0600, expected mode 0644",
        ),
    ],
)
def test_each_kind_of_difference_is_found_and_said(
    state: dict[str, Any], observed: dict[str, Any], sentence: str
) -> None:
    assert explain(differences(state, observed)) == [sentence]


def test_equal_values_written_differently_are_equal() -> None:
    state = {
        "files": {"/f": {"content": "a", "mode": "644"}},
        "sysctl": {"net.ipv4.tcp_rmem": "4096 131072 6291456"},
        "distributions": [{"distribution": "Debian", "version": 12}],
    }
    observed = {
        "files": {"/f": {"exists": True, "sha256": content_digest("a"), "mode": "0644"}},
        "sysctl": {"net.ipv4.tcp_rmem": "4096\t131072\t6291456"},
        "facts": {"distribution": "debian", "version": "12"},
    }
    assert differences(state, observed) == []


def test_an_absent_unit_is_right_only_where_the_state_allows_it() -> None:
    observed = {"units": {"gdm.service": {"load": "not-found", "enabled": False, "active": False}}}
    gone = {"enabled": False, "active": False}
    assert differences({"units": {"gdm.service": {**gone, "if_present": True}}}, observed) == []
    assert len(differences({"units": {"gdm.service": gone}}, observed)) == 1


class TestSecrets:
    STATE: ClassVar[dict[str, Any]] = {"files": {"/etc/token": {"secret": True, "mode": "0600", "same_as": "head"}}}

    def observed(self, digest: str) -> dict[str, Any]:
        return {"files": {"/etc/token": {"exists": True, "sha256": digest, "mode": "0600"}}}

    def test_equal_to_the_other_host(self) -> None:
        assert differences(self.STATE, self.observed("a" * 64), {"head": self.observed("a" * 64)}) == []

    def test_different_is_said_without_content_or_digest(self) -> None:
        found = differences(self.STATE, self.observed("a" * 64), {"head": self.observed("b" * 64)})
        assert explain(found) == ["file /etc/token has content different, expected content equal to head"]
        assert "aaaa" not in json.dumps(found)
        assert "bbbb" not in json.dumps(found)

    @pytest.mark.parametrize("peers", [None, {}, {"head": {}}, {"head": {"files": {"/etc/token": {"exists": False}}}}])
    def test_nothing_to_compare_with_is_a_difference(self, peers: dict[str, Any] | None) -> None:
        assert len(differences(self.STATE, self.observed("a" * 64), peers)) == 1

    def test_without_another_host_existence_and_mode_count(self) -> None:
        state = copy.deepcopy(self.STATE)
        state["files"]["/etc/token"]["same_as"] = None
        assert differences(state, self.observed("a" * 64)) == []
        observed = self.observed("a" * 64)
        observed["files"]["/etc/token"]["mode"] = "0644"
        assert len(differences(state, observed)) == 1


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"sysctls": {}}, "sysctls"),
        ({"units": {"a": {"enable": True}}}, "enable"),
        ({"links": {"a": {"mut": 1}}}, "mut"),
    ],
)
def test_a_misspelt_word_is_refused_instead_of_being_always_right(state: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        differences(state, {})


def test_roles_are_compared_one_by_one() -> None:
    states = {"a": {"sysctl": {"x": "1"}}, "b": {"sysctl": {"y": "1"}}, "c": {}}
    found = differences_by_role(states, {"sysctl": {"x": "1", "y": None}})
    assert [len(found[role]) for role in ("a", "b", "c")] == [0, 1, 0]


def test_an_unknown_role_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'gpu_driver'.*host_tuning"):
        desired_state("gpu_driver", {})
    assert len(ROLES) == len(set(ROLES))
