# SPDX-License-Identifier: Apache-2.0
"""The netplan files of 500 inventories, by the real planner, are read by a node's netplan as they are meant."""

from __future__ import annotations

import functools
import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.assessment import effective_problems
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.generated_units import NETWORKD, read_units
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import plan_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import load_planner_context
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import load_roles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[3]
COUNT = 500
FILE = "/etc/netplan/40-cx7.yaml"
LOADED = load_planner_context([ROOT / "catalog"], load_roles(ROOT / "roles", ROLES))
KNOWLEDGE = replace(LOADED, schema=functools.cache(LOADED.schema))

GENERATE = """
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
tar -xz -C "$place"
cd "$place"
program=/usr/libexec/netplan/generate
[ -x "$program" ] || program=/lib/netplan/generate
for root in *; do
  "$program" --root-dir "$place/$root" 2>"$root/refused" && rm "$root/refused"
done
find . -name refused -o -name '*.network' | tar -cz -T -
"""
"""What `netplan generate --root-dir` does, for all of them in one go."""

# Names as udev makes them, as people make them, and such that YAML or a shell could take for something else.
REAL = st.from_regex(r"\Aen[pP][0-9]{1,2}(p[0-9])?s[0-9](f[0-9])?(np[0-9])?\Z").filter(lambda name: len(name) <= 15)
ODD = st.sampled_from(["1e2", "0x10", "on", "null", "rail@0", "a.b-c_d", "Eth.100", "123", "yes", "version", "+x", "-"])
MADE = st.text(alphabet="abcdefghijklmnopqrstuvwxyzPX0123456789._-@", min_size=1, max_size=15)
PORTS = st.one_of(REAL, REAL, ODD, MADE).filter(lambda name: name not in (".", "..", "renderer"))
MTU = st.one_of(st.sampled_from([1500, 4200, 9000, 9216]), st.integers(1280, 9216))


@st.composite
def inventories(draw: st.DrawFn) -> dict[str, Any]:
    """Hosts with their numbers, and rails in subnets of all sizes that are each other's neighbours."""
    numbers = draw(st.lists(st.integers(0, 12), min_size=2, max_size=4, unique=True))
    ports = draw(st.lists(PORTS, min_size=1, max_size=4, unique=True))
    prefix = draw(st.integers(16, 27))
    base = draw(st.sampled_from(["10.{}.", "172.24.", "192.168."])).format(draw(st.integers(0, 255)))
    size = 2 ** (32 - prefix)
    high, low = divmod(draw(st.integers(0, 65536 // size - 1)) * size, 256)
    first = base + (f"{high}.{low}" if prefix > 16 else "0.0")
    return {"numbers": numbers, "ports": ports, "prefix": prefix, "first": first, "mtu": draw(MTU)}


def rails(inventory: dict[str, Any]) -> list[dict[str, str]]:
    """One subnet a rail; the second to fourth are in networks of their own, far from the first."""
    subnets = [inventory["first"], "100.64.0.0", "100.96.0.0", "198.18.0.0"][: len(inventory["ports"])]
    return [
        {"port": port, "subnet": f"{subnet}/{inventory['prefix']}"}
        for port, subnet in zip(inventory["ports"], subnets, strict=True)
    ]


def planned(inventory: dict[str, Any]) -> dict[str, Any]:
    """What the planner makes of it for its last host."""
    numbers = inventory["numbers"]
    hosts = [
        HostIntent(f"node{number}", place == 0, intent={"firstlight_fabric_number": number})
        for place, number in enumerate(numbers)
    ]
    heads = len(numbers)
    made = plan_cluster(
        {
            "firstlight_hardware": "gb10",
            "firstlight_stack": "spark-vllm-0.32",
            "firstlight_model": "org/tiny",
            "firstlight_serving": {"tensor_parallel": heads, "max_model_len": 256},
            "firstlight_fabric": {"mtu": inventory["mtu"], "rails": rails(inventory)},
            "firstlight_firewall": {},
        },
        hosts,
        KNOWLEDGE,
        config={
            "model_type": "llama",
            "num_hidden_layers": 2,
            "hidden_size": 64 * heads,
            "intermediate_size": 128 * heads,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "head_dim": 64,
            "vocab_size": 64 * heads,
            "max_position_embeddings": 512,
        },
    )
    assert not made.errors, (inventory, made.errors)
    state: dict[str, Any] = made.hosts[hosts[-1].name]["desired"]["fabric_network"]
    return state


@pytest.fixture(scope="module")
def states() -> dict[str, dict[str, Any]]:
    """The desired states of 500 inventories, by the name of a scratch root."""
    found: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()

    @settings(
        max_examples=COUNT + 100,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inventories())
    def collect(inventory: dict[str, Any]) -> None:
        if len(seen) < COUNT and str(inventory) not in seen:
            seen.add(str(inventory))
            found[f"{len(seen):03}"] = planned(inventory)

    collect()
    assert len(seen) == COUNT
    return found


def packed(states: dict[str, dict[str, Any]]) -> bytes:
    """One scratch root a state."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as archive:
        for root, state in states.items():
            entry = tarfile.TarInfo(f"{root}{FILE}")
            content = state["files"][FILE]["content"].encode()
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.timeout(300)  # hundreds of generators, each of which asks systemd on newer systems
def test_netplan_reads_every_one_as_it_is_meant(states: dict[str, dict[str, Any]], pytestconfig: pytest.Config) -> None:
    argv = ["ssh", "-F", pytestconfig.getoption("ssh_config"), "spark0", GENERATE]
    ran = subprocess.run(argv, input=packed(states), capture_output=True, check=True, timeout=280)
    units: dict[str, dict[str, str]] = {root: {} for root in states}
    refused = {}
    with tarfile.open(fileobj=io.BytesIO(ran.stdout), mode="r:gz") as archive:
        for member in archive:
            path = Path(member.name)
            stream = archive.extractfile(member)
            assert stream is not None
            text = stream.read().decode()
            if path.name == "refused":
                refused[path.parts[0]] = text
            else:
                units[path.parts[0]][path.name] = text
    assert refused == {}
    for root, state in states.items():
        problems = effective_problems(state["links"], {}, read_units(units[root], NETWORKD))
        assert problems == {}, (root, state["files"][FILE]["content"])
        assert len(units[root]) == len(state["links"])
