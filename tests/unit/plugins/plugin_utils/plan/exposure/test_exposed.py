# SPDX-License-Identifier: Apache-2.0
"""Nothing is open to strangers unless the operator accepts it by name; whatever is shipped is closed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import MOST_REPLICAS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import ENGINE_PORT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.exposed import check_exposed
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.firewall_intent import (
    read_firewall_intent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planning import plan_hosts

pytestmark = pytest.mark.hostile

ROOT = Path(__file__).resolve().parents[6]
SHIPPED = sorted(
    path
    for directory in ("inventory", "src/firstlight/scaffold")
    for path in ROOT.glob(f"{directory}/*/group_vars/all.yml")
    if not path.parts[-3].startswith("lab")
)
CLOSED: dict[str, Any] = {"firstlight_firewall": {}}


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def refused(intent: dict[str, Any], listen: str = "127.0.0.1", count: int = 4, **variables: Any) -> dict[str, str]:
    """What these hosts are refused for, with what there is to do."""
    serving = {"profile": "vllm-single", "port": 290, "replicas": 1, **variables.pop("serving", {})}
    errors = PlanErrors()
    choices: Any = SimpleNamespace(
        intent=intent,
        hosts=[HostIntent(f"node{index}", index == 0, variables=variables) for index in range(count)],
        serving=SimpleNamespace(listen=listen, **serving),
        firewall=read_firewall_intent(intent, errors),
    )
    check_exposed(choices, errors)
    return {one["id"]: one["remedy"] for one in errors.found}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parts[-4]}-{path.parts[-3]}")
def test_whatever_is_shipped_is_closed(path: Path) -> None:
    intent = read(path)
    assert intent["firstlight_firewall"] == {}
    assert intent["firstlight_serving"]["listen"] == "127.0.0.1"
    assert intent["firstlight_serving"]["port"] == ENGINE_PORT
    assert "firstlight_exposed_ok" not in intent


@pytest.mark.slow  # a whole plan, with the catalog read for it
def test_a_plan_that_would_be_open_is_refused() -> None:
    given = read(ROOT / "inventory/spark4/group_vars/all.yml")
    intent = {name: value for name, value in given.items() if name.startswith("firstlight_")}
    intent.pop("firstlight_firewall", None)
    intent["firstlight_serving"] |= {"listen": "0.0.0.0", "port": 8000}
    made = plan_hosts([HostIntent(f"spark{index}", index == 0, intent=intent) for index in range(4)])
    assert {one["id"] for one in made.errors} == {"exposed.hosts", "exposed.engine", "exposed.port"}
    assert all(one["desired"] == {} for one in made.hosts.values())


@pytest.mark.parametrize("firewall", [{}, {"firstlight_firewall": None}, {"firstlight_firewall": {"enabled": False}}])
def test_several_hosts_without_a_firewall_are_refused(firewall: dict[str, Any]) -> None:
    assert "firstlight_exposed_ok: [hosts]" in refused(firewall)["exposed.hosts"]
    assert "exposed.hosts" in refused({**firewall, "firstlight_exposed_ok": ["engine"]})
    assert refused({**firewall, "firstlight_exposed_ok": ["hosts"]}) == {}
    assert refused(firewall, count=1) == {}
    assert refused(CLOSED) == {}


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("listen", ["0.0.0.0", "::", "192.168.100.10", "fd00::5", "128.0.0.1", "head", ""])
def test_an_engine_that_others_can_reach_is_refused(listen: str, count: int) -> None:
    """As an address of the intent, and as a variable of the role, which would pass by it."""
    for places in ({"listen": listen}, {"inference_server_listen": listen}):
        assert "firstlight_exposed_ok: [engine]" in refused(CLOSED, count=count, **places)["exposed.engine"]
        assert "exposed.engine" in refused({**CLOSED, "firstlight_exposed_ok": ["hosts"]}, count=count, **places)
        assert refused({**CLOSED, "firstlight_exposed_ok": ["engine"]}, count=count, **places) == {}


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.9.9.9", "::1"])
def test_an_engine_on_loopback_is_not_refused(listen: str) -> None:
    assert refused(CLOSED, listen) == {}


@pytest.mark.parametrize("port", [8000, 1024, 65535, "8000", " 8000", 8000.0])
def test_a_port_that_any_user_can_take_is_refused(port: Any) -> None:
    """While the engine is down, whoever listens there is sent its key. Again as a variable of the role, too."""
    for places in ({"serving": {"port": int(port)}}, {"inference_server_port": port}):
        assert "firstlight_exposed_ok: [port]" in refused(CLOSED, **places)["exposed.port"]
        assert "exposed.port" in refused({**CLOSED, "firstlight_exposed_ok": ["hosts", "engine"]}, **places)
        assert refused({**CLOSED, "firstlight_exposed_ok": ["port"]}, **places) == {}


def test_replicas_have_ports_of_that_kind_too() -> None:
    replicas = {"profile": "vllm-replicas", "replicas": MOST_REPLICAS}
    assert refused(CLOSED, count=1, serving={**replicas, "port": ENGINE_PORT}) == {}
    assert refused(CLOSED, count=1, serving={**replicas, "port": 1023 - MOST_REPLICAS}) == {}
    assert set(refused(CLOSED, count=1, serving={**replicas, "port": 1024 - MOST_REPLICAS})) == {"exposed.port"}
    assert ENGINE_PORT + MOST_REPLICAS < 512, "RPC and NFS take those from 512 on at random"


@pytest.mark.parametrize("accepted", [True, "hosts", ["everything"], {"hosts": True}, [["hosts"]], 1])
def test_burn_in_that_names_nothing_accepts_nothing(accepted: Any) -> None:
    assert set(refused({"firstlight_exposed_ok": accepted}, "0.0.0.0")) == {"exposed.accepted"}
