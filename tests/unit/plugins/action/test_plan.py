# SPDX-License-Identifier: Apache-2.0
"""The plan through Ansible itself: real inventories, real variables, no host that could answer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import program_digest

from firstlight.cli import main
from tests.unit.ansible_runs import run_playbook
from tests.unit.ideal import ideal_ports

pytestmark = pytest.mark.slow  # a run of Ansible each

ROOT = Path(__file__).parents[4]
PINS = {
    "firstlight_image": "registry.example.com/vllm@sha256:" + "1" * 64,
    "firstlight_image_build": False,
    "firstlight_model_revision": "2" * 40,
}


def play(
    inventory: str, *arguments: str, playbook: str | Path = "playbooks/plan.yml", **environment: str
) -> subprocess.CompletedProcess[str]:
    return run_playbook(
        str(playbook),
        "-i",
        inventory,
        *arguments,
        environment=environment,
        settings={"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default", "NO_COLOR": "1"},
    )


def facts(tmp_path: Path, inventory: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """Plan, and read back each host's fact."""
    probe = tmp_path / "probe.yml"
    shown = "PLAN {{ inventory_hostname }} {{ firstlight_plan | ansible.builtin.to_json }}"
    say = {"name": "Show it", "ansible.builtin.debug": {"msg": shown}}
    probe.write_text(
        yaml.safe_dump(
            [
                {"ansible.builtin.import_playbook": str(ROOT / "playbooks" / "plan.yml")},
                {"name": "Show the plans", "hosts": "cluster", "gather_facts": False, "tasks": [say]},
            ]
        )
    )
    done = play(inventory, *arguments, playbook=probe, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(text).split(" ", 2) for text in re.findall(r'(?m)^    "msg": (".*")$', done.stdout)]
    return {name: json.loads(document) for word, name, document in lines if word == "PLAN"}


def test_what_only_the_operator_knows_stops_a_run_and_not_a_plan(tmp_path: Path) -> None:
    entry = yaml.safe_load((ROOT / "catalog/models/deepseek-v4-flash.yml").read_text(encoding="utf-8"))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "deepseek-v4-flash.yml").write_text(yaml.safe_dump({**entry, "revision": None}))
    missing = json.dumps(
        {
            "firstlight_catalog": [str(tmp_path)],
            "firstlight_model": "deepseek-v4-flash",
            "firstlight_image_build": False,
            "firstlight_serving": {"max_model_len": 8192},
        }
    )
    paper = play("inventory/spark4", "-e", missing)
    assert paper.returncode == 0, paper.stdout
    done = play("inventory/spark4", "-e", missing, playbook="site.yml")
    assert done.returncode != 0
    for run in (paper, done):
        assert "2 things to supply" in run.stdout
        assert "set firstlight_image" in run.stdout
        assert "set firstlight_model_revision" in run.stdout
        assert "unreachable=0" in run.stdout
        assert "Observe the host" not in run.stdout


def test_four_sparks_are_planned_in_check_mode_and_the_operator_wins(tmp_path: Path) -> None:
    extra = json.dumps({**PINS, "host_tuning_swappiness": 7})
    plans = facts(tmp_path, "inventory/spark4", "--check", "-e", extra)
    assert len(plans) == 4
    head = plans["spark-alpha"]
    assert head["cluster"] == {
        "head": "spark-alpha",
        "hosts": ["spark-alpha", "spark-beta", "spark-gamma", "spark-delta"],
        "size": 4,
        "hardware": "gb10",
        "stack": "spark-vllm-0.32",
        "model": "qwen3.5-397b-a17b-fp8",
        "engine": "vllm",
        "engine_version": "0.32.0",
        "profile": "vllm-multinode",
        "context": 131072,
        "kv_cache_dtype": "auto",
    }
    assert plans["spark-delta"]["host"]["fabric"][1] == {
        "cage": 1,
        "half": 1,
        "port": "enP2p1s0f1np1",
        "address": "192.168.101.13/24",
        "mtu": 9000,
    }
    assert head["roles"]["host_tuning"]["host_tuning_swappiness"] == 7
    assert head["desired"]["host_tuning"]["sysctl"]["vm.swappiness"] == "7"
    assert head["roles"]["inference_server"]["inference_server_rdma"] is True


def test_one_h100_node_is_planned_without_ray_and_the_plan_can_be_written_down(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    plans = facts(tmp_path, "inventory/h100x4", "-e", f"plan_document={target}")
    assert plans["h100"]["desired"]["ray_cluster"] == {}
    assert plans["h100"]["roles"]["inference_server"]["inference_server_tensor_parallel"] == 4
    assert plans["h100"]["resources"]["ports"] == [plans["h100"]["roles"]["inference_server"]["inference_server_port"]]
    assert any("/h100x4/keys/" in line for line in plans["h100"]["client_help"]) is bool(
        plans["h100"]["roles"]["endpoint"]
    )
    # To the byte what `firstlight plan --json` prints, whose own test compares it with the same file.
    text = target.read_text().replace(program_digest("supervisor"), "0" * 64)
    assert text == (ROOT / "tests/golden/plan/h100x4.json").read_text()


def test_a_benchmark_is_held_against_the_plan_and_gates(tmp_path: Path) -> None:
    summary = {"output_tokens_per_s": 5.0, "tpot_ms": {"50": 190.0}, "spread": {}}
    point: dict[str, Any] = {"streams": 1, "rate": None, "runs": [], "summary": summary}
    workload = {"name": "chat", "input": 1024, "output": 256, "prompts": "random", "points": [point]}
    rails = {name: {"port": name, "mtu": 9000, "cage": 1} for name in ("enp1s0f1np1", "enP2p1s0f1np1")}
    ports = {name: one | {"speed_mbit": 100000} for name, one in ideal_ports(rails, {}).items()}
    variables = {
        "firstlight_bench": {"gate": ["chat"]},
        "__seen": {"observation": {"fabric": ports, "gpu_health": {"checks": []}}},
    }
    result = tmp_path / "result.json"
    result.write_text(json.dumps({"client": {}, "workloads": [workload]}))
    evaluate = {"firstlight.cluster.plan": {"bench": str(result), "observed": "__seen", "complete": False}}
    gate = {"ansible.builtin.assert": {"that": "verdict.bench_gate == []", "fail_msg": "{{ verdict.bench_gate }}"}}
    probe = tmp_path / "probe.yml"
    tasks = [{**evaluate, "register": "verdict"}, gate]
    probe.write_text(yaml.safe_dump([{"hosts": "head", "gather_facts": False, "tasks": tasks}]))
    done = play("inventory/spark4", "-e", json.dumps(variables), playbook=probe)
    assert done.returncode != 0
    assert "chat, 1 stream: slow: tokens/s 5, expected" in done.stdout
    assert "(4-Spark deployment guide)" in done.stdout
    assert "spark-delta: enp1s0f1np1 and enP2p1s0f1np1 at 100 of 200 Gb/s (half its rate)" in done.stdout
    result.write_text("[]")
    done = play("inventory/spark4", "-e", json.dumps(variables), playbook=probe)
    assert "cannot be evaluated" in done.stdout


@pytest.fixture
def lab_cache(tmp_path: Path) -> Path:
    catalog = tmp_path / "cache" / "labs" / "unit" / "catalog"
    common = {"source": "made by the test", "date": "2026-01-01"}
    entries: dict[str, dict[str, Any]] = {
        "stacks/lab.yml": {
            "name": "lab",
            "packages": {"docker.io": "20.10.24"},
            "image": {
                "repository": "registry.lab.example/vllm",
                "digest": "sha256:" + "1" * 64,
                "size_bytes": 1,
            },
            "requires": {"vllm": "0.32.0", "ray": "2.60.0"},
            "weights_endpoint": "https://hub.lab.example",
        },
        "models/tiny.yml": {"name": "tiny", "repository": "lab/tiny", "revision": "2" * 40},
    }
    for path, entry in entries.items():
        (catalog / path).parent.mkdir(parents=True, exist_ok=True)
        (catalog / path).write_text(yaml.safe_dump({**entry, **common}))
    return tmp_path / "cache"


def test_the_lab_is_planned_from_its_own_catalog(tmp_path: Path, lab_cache: Path) -> None:
    plans = facts(tmp_path, "inventory/lab", FIRSTLIGHT_CACHE=str(lab_cache), FIRSTLIGHT_LAB="unit")
    assert sorted(plans) == ["spark0", "spark1", "spark2", "spark3"]
    server = plans["spark0"]["roles"]["inference_server"]
    assert "--gpu-memory-utilization" not in server["inference_server_flags"]
    assert server["inference_server_flags"][:2] == ["--max-model-len", "256"]
    assert plans["spark1"]["roles"]["model_weights"]["model_weights_endpoint"] == "https://hub.lab.example"


def test_a_lab_that_is_not_up_is_one_message(tmp_path: Path) -> None:
    done = play("inventory/lab", FIRSTLIGHT_CACHE=str(tmp_path), FIRSTLIGHT_LAB="none")
    assert done.returncode != 0
    assert f"catalog directory {tmp_path}/labs/none/catalog does not exist" in done.stdout


def test_an_inventory_without_the_group_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("cluster: {hosts: {}}\nall: {hosts: {a: {}}}\n")
    playbook = tmp_path / "play.yml"
    playbook.write_text("- hosts: all\n  gather_facts: false\n  tasks: [{firstlight.cluster.plan: }]\n")
    done = play(str(tmp_path / "hosts.yml"), playbook=playbook)
    assert done.returncode != 0
    assert "group cluster has no hosts" in done.stdout


def test_another_stack_than_the_inventorys_is_planned(tmp_path: Path) -> None:
    plans = facts(tmp_path, "inventory/h100x4", "-e", "plan_stack=h100-vllm-0.32-venv")
    assert plans["h100"]["cluster"]["stack"] == "h100-vllm-0.32-venv"
    assert plans["h100"]["roles"]["container_runtime"] is None


@pytest.mark.parametrize(
    ("variables", "extra"),
    [
        ("inference_server_api_key: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3132\n", ()),
        ("firstlight_networks: ['{{ nowhere }}']\n", ()),
        ("{}", ("-e", "plan_model=nobody")),
    ],
    ids=["a vault without its password", "a template of nothing", "another model"],
)
def test_the_command_and_the_playbook_refuse_in_the_same_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], variables: str, extra: tuple[str, ...]
) -> None:
    inventory = str(shutil.copytree(ROOT / "inventory" / "spark4", tmp_path / "inventory"))
    (tmp_path / "inventory" / "group_vars" / "cluster.yml").write_text(variables)
    assert main(["plan", "-i", inventory, "--json", *extra]) == 2
    errors = json.loads(capsys.readouterr().out)["errors"]
    done = play(inventory, *extra)
    assert done.returncode != 0
    assert len(errors) == 1
    (told,) = re.findall(r"(?m)FAILED! => (\{.*\})$", done.stdout)
    assert json.loads(told)["msg"] == explain_errors(errors)
