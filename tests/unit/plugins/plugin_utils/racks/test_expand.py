# SPDX-License-Identifier: Apache-2.0
"""From a rack file to hosts and groups, and everything for which one is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.expand import RackError, expand

PLUGIN = "firstlight.cluster.rack"


def rack(**changed: Any) -> dict[str, Any]:
    """A rack that is right; a part that is None is left out."""
    given = {"name": "a", "prefix": "spark-a", "count": 4, "head": 1, "fabric": "10-41"} | changed
    return {key: value for key, value in given.items() if value is not None}


def second(**changed: Any) -> dict[str, Any]:
    return rack(**{"name": "b", "prefix": "spark-b", "head": None, "fabric": "42-73"} | changed)


def document(*racks: Any) -> dict[str, Any]:
    return {"plugin": PLUGIN, "racks": list(racks)}


def refused(given: object, chosen: str | None = None) -> list[str]:
    with pytest.raises(RackError) as error:
        expand(given, chosen)
    for one in error.value.errors:
        assert set(one) == {"id", "found", "rule", "remedy"}
        assert all(one.values())
        assert one["found"] in str(error.value)
    return [one["id"] for one in error.value.errors]


def test_a_rack_becomes_hosts_by_position() -> None:
    found = expand(document(rack(management="10.20.1.11-10.20.1.42", hardware="gb10", power_w=2000, units=42)))
    assert list(found.hosts) == ["spark-a1", "spark-a2", "spark-a3", "spark-a4"]
    assert found.hosts["spark-a3"] == {
        "ansible_host": "10.20.1.13",
        "firstlight_fabric_number": 2,
        "firstlight_hardware": "gb10",
        "firstlight_rack": {"name": "a", "position": 3, "power_w": 2000, "units": 42},
    }
    assert found.groups == {
        "rack_a": ["spark-a1", "spark-a2", "spark-a3", "spark-a4"],
        "head": ["spark-a1"],
        "workers": ["spark-a2", "spark-a3", "spark-a4"],
    }
    assert found.children == {"cluster": ["head", "workers"]}
    assert not found.notes


def test_an_absent_node_leaves_a_hole() -> None:
    full, gone = (expand(document(rack(management="10.20.1.0/24", absent=absent))) for absent in (None, [3]))
    assert list(gone.hosts) == ["spark-a1", "spark-a2", "spark-a4"]
    assert gone.hosts["spark-a4"] == full.hosts["spark-a4"]
    assert gone.hosts["spark-a4"]["ansible_host"] == "10.20.1.13"


def test_addresses_that_follow_no_range_are_told_by_position() -> None:
    told = {1: "10.20.1.91", 2: "10.20.1.17", 3: "10.20.2.4", 4: "10.20.1.33"}
    fewer = expand(document(rack(count=3, addresses=told)))
    more = expand(document(rack(addresses=told)))
    assert {host: one["ansible_host"] for host, one in fewer.hosts.items()} == {
        "spark-a1": "10.20.1.91",
        "spark-a2": "10.20.1.17",
        "spark-a3": "10.20.2.4",
    }
    assert {host: more.hosts[host] for host in fewer.hosts} == fewer.hosts


def test_serials_say_which_nodes_there_are() -> None:
    by_position = rack(count=None, serials={1: "S1", 4: "S4"}, reach="spark-{serial}.local")
    in_order = rack(count=None, serials=["S1", None, None, "S4"], reach="spark-{serial}.local")
    found = expand(document(by_position))
    assert found == expand(document(in_order))
    assert found.hosts["spark-a4"] == {
        "ansible_host": "spark-s4.local",
        "firstlight_fabric_number": 3,
        "firstlight_rack": {"name": "a", "position": 4, "serial": "S4"},
    }
    assert list(expand(document(rack(serials={1: "S1"}))).hosts) == ["spark-a1", "spark-a2", "spark-a3", "spark-a4"]
    assert list(expand(document(rack(count=None, serials={1: "S1", 2: "S2"}, absent=[2]))).hosts) == ["spark-a1"]


def test_names_may_have_digits_and_racks_numbers() -> None:
    found = expand(document(rack(name=7, digits=2, count=10, reach="{name}.rack{position}.example")))
    assert next(iter(found.hosts)) == "spark-a01"
    assert [*found.hosts][-1] == "spark-a10"
    assert found.hosts["spark-a10"]["ansible_host"] == "spark-a10.rack10.example"
    assert "rack_7" in found.groups


def test_several_racks_are_one_cluster() -> None:
    found = expand(document(rack(count=2), second(count=2)))
    assert found.groups["head"] == ["spark-a1"]
    assert found.groups["workers"] == ["spark-a2", "spark-b1", "spark-b2"]
    assert found.hosts["spark-b1"]["firstlight_fabric_number"] == 32


class TestClusters:
    RACKS = document(rack(cluster="chat"), second(cluster="batch", head=2))

    def test_none_is_chosen_by_itself(self) -> None:
        found = expand(self.RACKS)
        assert found.children == {"cluster_chat": ["rack_a"], "cluster_batch": ["rack_b"]}
        assert sorted(found.groups) == ["rack_a", "rack_b"]
        assert "FIRSTLIGHT_CLUSTER=chat" in found.notes[0]

    def test_the_chosen_one_is_the_cluster(self) -> None:
        found = expand(self.RACKS, "batch")
        assert found.groups["head"] == ["spark-b2"]
        assert found.groups["workers"] == ["spark-b1", "spark-b3", "spark-b4"]
        assert found.children["cluster_chat"] == ["rack_a"]
        assert found.hosts == expand(self.RACKS).hosts

    def test_one_alone_needs_no_choice(self) -> None:
        assert expand(document(rack(cluster="chat"))).groups["head"] == ["spark-a1"]

    def test_another_is_refused(self) -> None:
        assert refused(self.RACKS, "chta") == ["rack.choice"]
        assert refused(document(rack()), "chat") == ["rack.choice"]


@pytest.mark.parametrize(
    ("changed", "identifiers"),
    [
        ({"name": None}, ["rack.name"]),
        ({"name": "row-2"}, ["rack.name"]),
        ({"name": True}, ["rack.name"]),
        ({"cluster": "chat room"}, ["rack.name"]),
        ({"prefix": None}, ["rack.prefix"]),
        ({"prefix": "Spark_"}, ["rack.prefix"]),
        ({"prefix": "9spark"}, ["rack.prefix"]),
        ({"digits": 9}, ["rack.prefix"]),
        ({"count": None}, ["rack.nodes"]),
        ({"count": 0}, ["rack.nodes"]),
        ({"count": "4"}, ["rack.nodes"]),
        ({"count": True}, ["rack.nodes"]),
        ({"count": 10**9}, ["rack.nodes"]),
        ({"absent": 3}, ["rack.nodes"]),
        ({"absent": [30]}, ["rack.nodes"]),
        ({"absent": [1, 2, 3, 4], "head": None}, ["rack.nodes"]),
        ({"count": None, "serials": "S1"}, ["rack.nodes"]),
        ({"count": None, "serials": {"one": "S1"}}, ["rack.nodes"]),
        ({"serials": {9: "S9"}}, ["rack.nodes"]),
        ({"serials": {1: 123}}, ["rack.serial"]),
        ({"serials": {1: "S 1"}}, ["rack.serial"]),
        ({"serials": {1: "S1", 2: "s1"}}, ["rack.serial"]),
        ({"head": 5}, ["rack.head"]),
        ({"head": 3, "absent": [3]}, ["rack.head"]),
        ({"head": "spark-a1"}, ["rack.head"]),
        ({"head": None}, ["rack.head"]),
        ({"hardware": ["gb10"]}, ["rack.type"]),
        ({"management": "10.20.1.11"}, ["rack.management"]),
        ({"management": "10.20.1.42-10.20.1.11"}, ["rack.management"]),
        ({"management": "10.20.1.5/24"}, ["rack.management"]),
        ({"management": "10.20.1.0/29"}, ["rack.management"]),
        ({"management": "fd00::1-fd00::9"}, ["rack.management"]),
        ({"management": 10}, ["rack.management"]),
        ({"management": "10.20.1.11-10.20.1.13"}, ["rack.range-small"]),
        ({"fabric": "10-12"}, ["rack.range-small"]),
        ({"fabric": "10-12", "absent": [2], "management": "255.255.255.254-255.255.255.255"}, ["rack.range-small"] * 2),
        ({"fabric": None}, ["rack.fabric"]),
        ({"fabric": "1-40"}, ["rack.fabric"]),
        ({"fabric": "40-10"}, ["rack.fabric"]),
        ({"fabric": 10}, ["rack.fabric"]),
        ({"fabric": "192.168.100.10-192.168.100.41"}, ["rack.fabric"]),
        ({"reach": "spark.local"}, ["rack.reach"]),
        ({"reach": "{{ name }}"}, ["rack.reach"]),
        ({"reach": "{serial}.local"}, ["rack.reach"]),
        ({"reach": "{name}.local", "management": "10.20.1.0/24"}, ["rack.reach"]),
        ({"addresses": ["10.20.1.11"]}, ["rack.addresses"]),
        ({"addresses": {1: "10.20.1.11"}}, ["rack.addresses"]),
        ({"addresses": {"1": "10.20.1.11"}}, ["rack.addresses"]),
        ({"count": 1, "fabric": None, "addresses": {1: "spark.local"}}, ["rack.addresses"]),
        ({"count": 1, "addresses": {1: "10.20.1.11"}, "management": "10.20.1.0/24"}, ["rack.addresses"]),
        ({"count": 1, "addresses": {1: "10.20.1.11"}, "reach": "{name}.local"}, ["rack.addresses"]),
        ({"count": 2, "addresses": {1: "10.20.1.11", 2: "10.20.1.11"}}, ["rack.duplicate-address"]),
        ({"power_w": "17 kW"}, ["rack.limit"]),
        ({"power_w": float("nan")}, ["rack.limit"]),
        ({"units": 0}, ["rack.limit"]),
        ({"colour": "red"}, ["intent.unknown-key"]),
    ],
)
def test_what_is_wrong_with_a_rack_is_refused(changed: dict[str, Any], identifiers: list[str]) -> None:
    assert refused(document(rack(**changed))) == identifiers


@pytest.mark.parametrize(
    ("other", "identifiers"),
    [
        ({"name": "a"}, ["rack.name"]),
        ({"prefix": "spark-a"}, ["rack.duplicate-host"] * 4),
        ({"fabric": "41-80"}, ["rack.overlap"]),
        ({"management": "10.20.1.40-10.20.1.90"}, ["rack.overlap"]),
        ({"serials": {1: "S1"}}, ["rack.serial"]),
        ({"count": 1, "addresses": {1: "10.20.1.40"}}, ["rack.overlap"]),
        ({"reach": "10.20.1.1{position}"}, ["rack.duplicate-address"] * 4),
        ({"head": 1}, ["rack.head"]),
        ({"cluster": "chat"}, ["rack.cluster"]),
        ({"fabric": None}, ["rack.fabric"]),
        ({"head": 1, "count": "4"}, ["rack.nodes"]),
    ],
)
def test_what_two_racks_cannot_both_have_is_refused(other: dict[str, Any], identifiers: list[str]) -> None:
    first = rack(management="10.20.1.11-10.20.1.42", serials={2: "S1"})
    assert refused(document(first, second(**other))) == identifiers


def test_a_name_that_two_prefixes_make_is_found() -> None:
    racks = document(rack(prefix="n", count=11), second(prefix="n1", count=1))
    assert refused(racks) == ["rack.duplicate-host"]


@pytest.mark.parametrize("given", [None, [], {}, {"racks": []}, {"racks": {}}, {"racks": "a"}, {"racks": [1]}])
def test_what_is_no_rack_file_is_refused(given: object) -> None:
    assert refused(given) == ["rack.type"]


def test_all_that_is_wrong_is_told_at_once() -> None:
    given = document(rack(prefix="X", head=9), second(fabric="1-2", power_w=-1)) | {"rack": 1}
    assert sorted(refused(given)) == ["intent.unknown-key", "rack.fabric", "rack.head", "rack.limit", "rack.prefix"]


def test_one_host_needs_no_fabric() -> None:
    found = expand(document(rack(count=1, fabric=None)))
    assert found.hosts == {"spark-a1": {"firstlight_rack": {"name": "a", "position": 1}}}
