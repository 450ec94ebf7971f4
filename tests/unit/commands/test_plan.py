# SPDX-License-Identifier: Apache-2.0
"""`firstlight plan` on whole inventories: the three examples, and every bad one an operator may write."""

from __future__ import annotations

import copy
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import command as systemd_command
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import PATHS, program_digest

from firstlight.cli import main

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "plan"
EXAMPLES = ("spark4", "h100x4", "h100x8")


def moved(example: str, **serving: Any) -> list[str]:
    """An example with other settings of its serving, as the arguments of a command."""
    variables = yaml.safe_load((ROOT / "inventory" / example / "group_vars" / "all.yml").read_text())
    given = {"firstlight_serving": {**variables["firstlight_serving"], **serving}}
    return ["-i", str(ROOT / "inventory" / example), "-e", json.dumps(given)]


ON_RAY = moved("spark4", profile="vllm-ray")
GOLDEN_PLANS = {name: ["-i", str(ROOT / "inventory" / name)] for name in EXAMPLES} | {"spark4-ray": ON_RAY}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["plan", *arguments, "--json"])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    document: dict[str, Any] = json.loads(captured.out)
    assert {"errors", "hosts", "fit", "advice"} <= document.keys()
    for error in document["errors"]:
        assert set(error) == {"id", "found", "rule", "remedy"}
        assert all(isinstance(text, str) and text for text in error.values())
    assert status == (2 if document["errors"] else 0)
    return status, document


class TestExamples:
    @pytest.mark.parametrize("name", GOLDEN_PLANS)
    def test_the_plan_is_the_golden_one(self, capsys: pytest.CaptureFixture[str], name: str) -> None:
        """Regenerate with FIRSTLIGHT_UPDATE_GOLDEN=1, and read the difference before you commit it."""
        status, document = run(capsys, *GOLDEN_PLANS[name])
        # Programs are files of their own: a plan has their digests, which are not what this compares.
        text = json.dumps(document, indent=2) + "\n"
        for digest in map(program_digest, PATHS):
            text = text.replace(digest, "0" * 64)
        golden = GOLDEN / f"{name}.json"
        if os.environ.get("FIRSTLIGHT_UPDATE_GOLDEN"):
            golden.write_text(text)
        assert status == 0
        assert text == golden.read_text()

    def test_one_variable_moves_four_sparks_to_ray_and_back(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, alone = run(capsys, *GOLDEN_PLANS["spark4"])
        _, on_ray = run(capsys, *ON_RAY)
        assert (alone["cluster"]["profile"], on_ray["cluster"]["profile"]) == ("vllm-multinode", "vllm-ray")
        for host in alone["hosts"]:
            before, after = (one["hosts"][host]["desired"] for one in (alone, on_ray))
            for role in before:
                same = role not in ("ray_cluster", "inference_server", "supervisor")
                assert (before[role] == after[role]) == same, (host, role)
            assert before["inference_image"]["images"]
            assert before["model_weights"]["snapshots"]

    @pytest.mark.parametrize("serving", [["-i", str(ROOT / "inventory" / "spark4")], ON_RAY], ids=["alone", "on Ray"])
    def test_an_image_that_is_built_needs_no_digest(
        self, capsys: pytest.CaptureFixture[str], serving: list[str]
    ) -> None:
        arguments = [*serving, "-e", "firstlight_image_build=true"]
        _, document = run(capsys, *arguments)
        assert document["missing_inputs"] == []
        (note,) = (one for one in document["notes"] if one.startswith("The image is built on"))
        assert note.startswith("The image is built on spark-alpha from recipe vllm-0.32.0-gb10: nvidia/cuda@sha256:")
        for host in document["hosts"].values():
            ((name, image),) = host["desired"]["inference_image"]["images"].items()
            assert image["reference"].startswith("firstlight/recipe/vllm-0.32.0-gb10@sha256:")
            pinned = f"firstlight/engine:{image['reference'].partition('@')[2].replace(':', '-')}"
            assert name.startswith(f"{pinned}-ray-2.60.0_")
            assert {"vllm", "nccl", "cuda", "python", "ray"} <= set(image["requires"])
        assert main(["plan", *arguments]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "built on the head from recipe vllm-0.32.0-gb10, sha256:" in shown

    @pytest.mark.parametrize("name", EXAMPLES)
    def test_what_a_person_reads_is_the_golden_text(self, capsys: pytest.CaptureFixture[str], name: str) -> None:
        """One screen in a pipe, without colours; regenerate it with FIRSTLIGHT_UPDATE_GOLDEN=1, and read it."""
        assert main(["plan", "-i", str(ROOT / "inventory" / name)]) == 0
        shown = capsys.readouterr().out
        golden = GOLDEN / f"{name}.txt"
        if os.environ.get("FIRSTLIGHT_UPDATE_GOLDEN"):
            golden.write_text(shown)
        assert shown == golden.read_text()
        lines = shown.splitlines()
        assert len(lines) <= 60
        assert max(map(len, lines)) <= 120
        assert all(line == line.rstrip() for line in lines)

    @pytest.mark.slow  # three plans each
    @pytest.mark.parametrize("name", EXAMPLES)
    def test_a_host_in_full_has_what_the_screen_leaves_out(self, capsys: pytest.CaptureFixture[str], name: str) -> None:
        _, document = run(capsys, *GOLDEN_PLANS[name])
        host = next(iter(document["hosts"]))
        for option in (["--host", host], ["--verbose"]):
            assert main(["plan", *GOLDEN_PLANS[name], *option]) == 0
            shown = capsys.readouterr().out
            for words in (
                "packages",
                "vm.swappiness = 1",
                "/etc/sysctl.d/zz-firstlight.conf",
                "firstlight-server.service",
            ):
                assert words in shown, words
            # Copied into a shell, the command is the planned one.
            first, *rest = shown[shown.index("    /usr/bin/docker run") :].splitlines()
            lines = [first, *(line for line in rest[: [line.endswith("\\") for line in rest].index(False) + 1])]
            assert shlex.split("\n".join(lines).replace("\\\n", " ")) == document["hosts"][host]["launch"][0]["argv"]
            assert len(lines) > 30

    def test_a_host_that_is_not_there_is_named_with_the_nearest(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", *GOLDEN_PLANS["spark4"], "--host", "spark-bta"]) == 2
        assert "no host 'spark-bta': did you mean spark-beta?" in capsys.readouterr().err

    @pytest.mark.slow  # eight plans
    def test_missing_inputs_are_an_error_with_strict(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        entry = yaml.safe_load((ROOT / "catalog/models/qwen3-235b-a22b-fp8.yml").read_text(encoding="utf-8"))
        (tmp_path / "models").mkdir()
        (tmp_path / "models" / "qwen3-235b-a22b-fp8.yml").write_text(yaml.safe_dump({**entry, "revision": None}))
        complete = [*GOLDEN_PLANS["h100x4"], "-e", "plan_model=qwen3-235b-a22b-fp8"]
        missing = [*complete, "-e", json.dumps({"firstlight_catalog": [str(tmp_path)]})]
        for option in ([], ["--json"], ["--host", "h100"]):
            assert main(["plan", *missing, *option]) == 0
            assert main(["plan", *missing, *option, "--strict"]) == 2
        assert "Required before apply" in capsys.readouterr().out
        assert main(["plan", *complete, "--strict"]) == 0

    @pytest.mark.slow  # three plans
    def test_what_changed_since_a_saved_plan(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        saved = str(GOLDEN / "h100x8.json")
        moved = [
            *GOLDEN_PLANS["h100x8"],
            "-e",
            "plan_model=llama-3.3-70b-fp8-dynamic",
            "-e",
            "firstlight_price_per_gpu_hour=2",
        ]
        assert main(["plan", *moved, "--diff", saved]) == 0
        shown = capsys.readouterr().out
        for words in (
            "model: qwen3.5-397b-a17b-fp8 -> llama-3.3-70b-fp8-dynamic",
            "price_per_gpu_hour: none -> 2.0",
            "- --served-model-name=qwen3.5-397b-a17b-fp8",
            "+ --served-model-name=llama-3.3-70b-fp8-dynamic",
            "~ /etc/systemd/system/firstlight-server.service",
            "weights_bytes: 46.6 GiB -> ",
            "chat: cost_per_million_tokens: none -> ",
        ):
            assert words in shown, words
        (tmp_path / "bad.json").write_text("[]")
        for bad in (tmp_path / "bad.json", tmp_path / "missing.json"):
            assert main(["plan", *moved, "--diff", str(bad)]) == 2
            assert "firstlight plan --json" in capsys.readouterr().err

    @pytest.mark.slow  # the command in a process of its own
    @pytest.mark.parametrize(
        "option",
        [
            "--verbose",
            pytest.param("--json", marks=pytest.mark.extended),  # another process, whose output is met in one place
        ],
    )
    def test_a_reader_that_has_seen_enough_is_no_error(self, option: str) -> None:
        command = [str(Path(sys.executable).with_name("firstlight")), "plan", "-i", "inventory/spark4", option]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(timeout=60) == 0

    @pytest.mark.parametrize("name", EXAMPLES)
    def test_a_shipped_inventory_is_complete_and_its_model_needs_no_token(
        self, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        _, document = run(capsys, "-i", str(ROOT / "inventory" / name))
        assert document["missing_inputs"] == []
        card = ROOT / "catalog" / "models" / f"{document['cluster']['model']}.yml"
        assert yaml.safe_load(card.read_text())["licence"] in ("Apache-2.0", "MIT")

    def test_four_sparks_get_the_addresses_of_the_recipe(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, document = run(capsys, "-i", str(ROOT / "inventory" / "spark4"))
        assert [[port["address"] for port in host["fabric"]] for host in document["hosts"].values()] == [
            [f"192.168.100.{10 + index}/24", f"192.168.101.{10 + index}/24"] for index in range(4)
        ]
        assert all(port["mtu"] == 9000 for host in document["hosts"].values() for port in host["fabric"])

    @pytest.mark.slow  # two runs of every example
    def test_it_is_quick_and_repeats_to_the_byte(self) -> None:
        """Quick is beside what Ansible takes to read the same inventory: about a second on an idle machine."""

        def measured(program: str, *arguments: str, seed: str = "0") -> tuple[float, bytes]:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            command = [str(Path(sys.executable).with_name(program)), *arguments, "-i", "inventory/spark4"]
            env = {**os.environ, "PYTHONHASHSEED": seed}
            shown = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True).stdout
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, shown

        plans = [measured("firstlight", "plan", "--json", seed=seed) for seed in ("0", "1")]
        assert len({shown for _, shown in plans}) == 1
        reading, _ = measured("ansible-inventory", "--list")
        # Python keeps what it compiled of Ansible, and Ansible keeps nothing of what it compiles of a collection.
        assert min(seconds for seconds, _ in plans) < 5 * reading

    @pytest.mark.parametrize("name", EXAMPLES)
    @pytest.mark.parametrize(
        "extra",
        [
            {},
            {"inference_server_port": "901", "inference_server_environment": {"VLLM_LOGGING_LEVEL": "DEBUG"}},
            {"ray_cluster_cpus": 3, "ray_cluster_environment": {"NCCL_DEBUG": "INFO"}, "ray_cluster_port": "6400"},
            {"firstlight_serving": {"tensor_parallel": 2, "pipeline_parallel": 2, "max_model_len": 1024}},
        ],
    )
    def test_what_the_plan_shows_is_what_the_units_run(
        self, capsys: pytest.CaptureFixture[str], name: str, extra: dict[str, Any]
    ) -> None:
        wanted = {**extra, "firstlight_model": "qwen2.5-72b"} if "firstlight_serving" in extra else extra
        if name == "spark4" and "ray_cluster_port" in extra:
            wanted = {**extra, **json.loads(ON_RAY[-1])}
        status, document = run(capsys, "-i", str(ROOT / "inventory" / name), "-e", json.dumps(wanted))
        assert status == 0, document["errors"]
        for host in document["hosts"].values():
            units = [
                file["content"]
                for role in ("ray_cluster", "inference_server")
                for file in host["desired"][role].get("files", {}).values()
                if "ExecStart=" in file.get("content", "")
            ]
            assert len(units) == len(host["launch"])
            for unit, one in zip(units, host["launch"], strict=True):
                assert f"\nExecStart={systemd_command(one['argv'])}\n" in unit
            for command in host["launch"]:
                shown = {f"--env={key}={value}" for key, value in command["env"].items()}
                assert shown == {word for word in command["argv"] if word.startswith("--env=")}


Change = Callable[[dict[str, Any], dict[str, Any]], None]


def change(path: str, value: Any) -> Change:
    """Set a value of group_vars/all.yml, by its path."""

    def apply(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        place: Any = variables
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        if isinstance(place, list):
            place[int(last)] = value
        else:
            place[last] = value

    return apply


PULLED = change("firstlight_image_build", False)
"""The example's image is built; stacks without a recipe, and tests of a digest, have one that is pulled."""


def no_head(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
    hosts["cluster"]["children"]["workers"]["hosts"] |= hosts["cluster"]["children"]["head"].pop("hosts")


def two_heads(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
    hosts["cluster"]["children"]["head"]["hosts"]["spark-omega"] = {}
    hosts["cluster"]["children"]["workers"]["hosts"].pop("spark-delta")


def one_address_twice(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
    for name in ("spark-beta", "spark-gamma"):
        hosts["cluster"]["children"]["workers"]["hosts"][name] = {"ansible_host": "10.1.2.3"}


def one_number_twice(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
    for name in ("spark-beta", "spark-gamma"):
        hosts["cluster"]["children"]["workers"]["hosts"][name]["firstlight_fabric_number"] = 7


def head_and_worker(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
    hosts["cluster"]["children"]["workers"]["hosts"]["spark-alpha"] = {}


def one_machine_twice(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
    hosts["cluster"]["children"]["workers"]["hosts"]["spark-beta"] = {"ansible_host": "SPARK-GAMMA.local"}


def managed_over_the_fabric(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
    hosts["cluster"]["children"]["workers"]["hosts"]["spark-beta"]["ansible_host"] = "192.168.100.77"


def nobody(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
    hosts["cluster"]["children"] = {}


BAD: list[tuple[str, Change, set[str]]] = [
    ("no head", no_head, {"head.missing"}),
    ("two heads", two_heads, {"head.several"}),
    ("one address twice", one_address_twice, {"host.duplicate-address"}),
    ("one number twice", one_number_twice, {"fabric.number"}),
    ("a host in the fabric's subnet", managed_over_the_fabric, {"fabric.network"}),
    ("no hosts", nobody, {"inventory.empty"}),
    ("unknown stack", change("firstlight_stack", "spark-vllm-0.33"), {"stack.unknown"}),
    ("unknown hardware", change("firstlight_hardware", "gb11"), {"hardware.unknown"}),
    ("unknown model", change("firstlight_model", "gpt-9"), {"model.unknown"}),
    ("misspelt variable", change("firstlight_servings", {}), {"intent.unknown-variable"}),
    ("misspelt key", change("firstlight_fabric.mut", 9000), {"intent.unknown-key"}),
    ("misspelt key of a rail", change("firstlight_fabric.rails.0.sbnet", "x"), {"intent.unknown-key"}),
    ("misspelt key of a method", change("firstlight_serving.speculative", {"metod": "mtp"}), {"intent.unknown-key"}),
    ("utilisation 0.9", change("firstlight_serving.gpu_memory_utilization", 0.9), {"serving.utilisation"}),
    ("TP 8 on four", change("firstlight_serving.tensor_parallel", 8), {"serving.parallel"}),
    ("MTU 70000", change("firstlight_fabric.mtu", 70000), {"fabric.mtu"}),
    ("Docker's bridge", change("firstlight_fabric.rails.0.subnet", "172.17.4.0/24"), {"fabric.network"}),
    ("twins in one subnet", change("firstlight_fabric.rails.1.subnet", "192.168.100.0/24"), {"fabric.overlap"}),
    ("a network in use", change("firstlight_networks", ["192.168.0.0/16"]), {"fabric.network"}),
    ("expert parallel", change("firstlight_serving.expert_parallel", True), {"hazard.known"}),
    (
        "expert parallel as a flag",
        change("firstlight_serving.flags", ["--enable-expert-parallel"]),
        {"hazard.known"},
    ),
    ("a model that does not fit", change("firstlight_model", "deepseek-v4-pro"), {"fit.too-big"}),
    (
        "a flag nobody has",
        change("firstlight_serving.flags", ["--scheduler-policy", "continuous"]),
        {"flags.replaced"},
    ),
    ("a misspelt flag", change("firstlight_serving.flags", ["--max-num-seq", "4"]), {"flags.abbreviation"}),
    ("a flag from nowhere", change("firstlight_serving.flags", ["--warp-speed"]), {"flags.unknown"}),
    ("experts by a short flag", change("firstlight_serving.flags", ["-ep"]), {"hazard.known"}),
    ("DeepGEMM on GB10", change("firstlight_serving.flags", ["--moe-backend", "deep_gemm"]), {"hazard.known"}),
    ("more requests than blocks", change("firstlight_serving.max_num_seqs", 256), {"fit.sequences"}),
    ("a secret in a unit", change("inference_server_environment", {"HF_TOKEN": "very-secret"}), {"launch.secret"}),
    ("flags beside the plan", change("inference_server_flags", ["--seed", "1"]), {"role.evaluated"}),
    ("replicas as a flag", change("firstlight_serving.flags", ["-dp", "4"]), {"serving.flags"}),
    (
        "on and off",
        change("firstlight_serving.flags", ["--no-enable-prefix-caching"]),
        {"serving.flags"},
    ),
    (
        "a key of a flag",
        change("firstlight_serving.flags", ["-sc", '{"method": "mtp"}', "-sc.num_speculative_tokens", "99"]),
        {"speculative.mtp"},
    ),
    ("a context nobody trained", change("firstlight_serving.max_model_len", 10**6), {"serving.context"}),
    ("an unknown word", change("firstlight_serving.served_name", {"a": 1}), {"serving.value"}),
    ("a head that works", head_and_worker, {"head.worker"}),
    ("one machine under two names", one_machine_twice, {"host.duplicate-address"}),
    ("another machine's stack", change("firstlight_stack", "h100-vllm-0.32"), {"stack.hardware"}),
    ("another method", change("firstlight_serving.flags", ["--quantization", "awq"]), {"model.quantization"}),
    ("a profile nobody has", change("firstlight_serving.profile", "vllm-rya"), {"serving.profile"}),
    ("a profile for one host", change("firstlight_serving.profile", "vllm-single"), {"serving.profile"}),
    ("an engine older than the model", change("firstlight_stack", "h100-vllm-0.7.3-cu126"), {"model.engine"}),
    ("a catalog that is not there", change("firstlight_catalog", ["/nowhere"]), {"catalog.unusable"}),
    ("a catalog that is no list", change("firstlight_catalog", "/nowhere"), {"intent.type"}),
    ("a target in words", change("firstlight_targets", {"ttft_p95_ms": "800 ms"}), {"targets.value"}),
    ("a price in words", change("firstlight_price_per_gpu_hour", "cheap"), {"price.value"}),
]


def write(tmp_path: Path, *changes: Change) -> str:
    directory = tmp_path / "bad"
    shutil.copytree(ROOT / "inventory" / "spark4", directory)
    variables = yaml.safe_load((directory / "group_vars" / "all.yml").read_text())
    hosts = yaml.safe_load((directory / "hosts.yml").read_text())
    for one in changes:
        one(variables, hosts)
    (directory / "group_vars" / "all.yml").write_text(yaml.safe_dump(copy.deepcopy(variables), sort_keys=False))
    (directory / "hosts.yml").write_text(yaml.safe_dump(copy.deepcopy(hosts), sort_keys=False))
    return str(directory)


PROFILES: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm-ray": ("spark4", json.loads(ON_RAY[-1])),
    "vllm-multinode": ("spark4", {"firstlight_stack": "spark-vllm-0.32-multinode"}),
    "vllm-single": ("h100x8", {}),
    "vllm-replicas": (
        "h100x8",
        {
            "firstlight_stack": "h100-vllm-0.32",
            "firstlight_model": "llama-3.3-70b",
            "firstlight_serving": {
                "profile": "vllm-replicas",
                "replicas": 2,
                "tensor_parallel": 4,
                "max_model_len": 8192,
            },
        },
    ),
    "vllm-single in a venv": (
        "h100x8",
        {
            "firstlight_stack": "h100-vllm-0.7.3-cu126",
            "firstlight_model": "llama-3.3-70b",
            "firstlight_serving": {"tensor_parallel": 8, "max_model_len": 131072},
        },
    ),
    "sglang": ("h100x8", {"firstlight_stack": "h100-sglang-0.5.23"}),
    "tensorrt-llm": (
        "h100x8",
        {"firstlight_stack": "h100-trtllm-1.2", "firstlight_serving": {"tensor_parallel": 8, "max_model_len": 8192}},
    ),
}
PROGRAMS = {
    "vllm-ray": "vllm serve",
    "vllm-multinode": "vllm serve",
    "vllm-single": "vllm serve",
    "vllm-replicas": "vllm serve",
    "vllm-single in a venv": "vllm serve",
    "sglang": "python3 -m sglang.launch_server",
    "tensorrt-llm": "trtllm-serve",
}


class TestProfiles:
    @pytest.mark.parametrize("name", PROFILES)
    def test_each_is_rendered_from_the_same_description(self, capsys: pytest.CaptureFixture[str], name: str) -> None:
        inventory, extra = PROFILES[name]
        status, document = run(capsys, "-i", str(ROOT / "inventory" / inventory), "-e", json.dumps(extra))
        assert status == 0, document["errors"]
        assert document["cluster"]["profile"] == name.split(maxsplit=1)[0]
        launched = [command for host in document["hosts"].values() for command in host["launch"]]
        served = [command for command in launched if command["name"].startswith("server")]
        assert len(served) == {"vllm-multinode": 4, "vllm-replicas": 2}.get(name, 1)
        assert served[0]["argv"][0] == ("/opt/venvs/vllm/bin/vllm" if name.endswith("venv") else "/usr/bin/docker")
        for command in served:
            assert PROGRAMS[name] in " ".join(command["engine_argv"])
        # Of this one engine people expect that it builds something.
        assert any("trtllm-build is not needed" in note for note in document["notes"]) == (name == "tensorrt-llm")

    def test_an_engine_nobody_has_the_flags_of(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        entry = yaml.safe_load((ROOT / "catalog" / "stacks" / "spark-vllm-0.32.yml").read_text())
        entry |= {"name": "newer", "engine": {"name": "vllm", "version": "0.99.0"}}
        entry["requires"]["vllm"] = "0.99.0"
        (tmp_path / "site" / "stacks").mkdir(parents=True)
        (tmp_path / "site" / "stacks" / "newer.yml").write_text(yaml.safe_dump(entry))
        wrong = [change("firstlight_stack", "newer"), change("firstlight_catalog", [str(tmp_path / "site")]), PULLED]
        _, document = run(capsys, "-i", write(tmp_path, *wrong))
        assert [one["id"] for one in document["errors"]] == ["engine.schema"]
        assert "vllm==0.32.0" in document["errors"][0]["rule"]


class TestSparks:
    """Four Sparks: what a start on their shared memory asks for, and what is known to fail there."""

    def plan(self, capsys: pytest.CaptureFixture[str], tmp_path: Path, *changes: Change) -> dict[str, Any]:
        _, document = run(capsys, "-i", write(tmp_path, *changes))
        assert document["errors"] == []
        return document

    def server(self, document: dict[str, Any], host: str = "spark-alpha") -> dict[str, Any]:
        (found,) = [one for one in document["hosts"][host]["launch"] if one["name"] == "server"]
        return dict(found)

    def flags(self, document: dict[str, Any]) -> str:
        return " ".join(self.server(document)["engine_argv"])

    def gate(self, document: dict[str, Any], host: str = "spark-alpha") -> dict[str, Any]:
        """What the supervisor waits for before a start."""
        files = document["hosts"][host]["desired"]["supervisor"]["files"]
        config = json.loads(files["/etc/firstlight/supervisor.json"]["content"])
        return dict(config["groups"][0]["needs"]["memory"])

    def without(self, key: str) -> Change:
        def apply(variables: dict[str, Any], hosts: dict[str, Any]) -> None:
            del variables["firstlight_serving"][key]

        return apply

    def test_the_share_is_what_was_free_at_a_start_and_the_gate_asks_for_the_same(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        document = self.plan(capsys, tmp_path, self.without("gpu_memory_utilization"))
        assert "--gpu-memory-utilization 0.82 " in self.flags(document)
        # Beyond it, what CUDA and NCCL of four ranks take before vLLM looks.
        assert self.gate(document) == {"kind": "unified", "share": 0.82, "overhead_mib": 1946}
        assert document["fit"]["utilisation"] == 0.82

    def test_a_larger_share_is_planned_with_a_warning(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        document = self.plan(capsys, tmp_path, change("firstlight_serving.gpu_memory_utilization", 0.85))
        assert "--gpu-memory-utilization 0.85 " in self.flags(document)
        assert self.gate(document)["share"] == 0.85
        assert any("101.3 GiB free at its start" in note for note in document["notes"])

    def test_a_cache_of_a_fixed_size_brings_the_share_that_it_needs(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """vLLM looks for its share even then, and would look for its own 0.92."""
        size = change("firstlight_serving.flags", ["--language-model-only", "--kv-cache-memory-bytes", "2560M"])
        document = self.plan(capsys, tmp_path, self.without("gpu_memory_utilization"), size)
        assert "--gpu-memory-utilization 0.82 " in self.flags(document), "93.0 + 0.5 + 2.7 + 2.5 GiB of 121.7"
        assert self.gate(document)["share"] == 0.82

    def test_the_gate_of_gpus_asks_for_the_engines_own_share_where_nobody_says_one(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        settings = {"firstlight_serving": {"tensor_parallel": 8, "max_model_len": 8192}}
        _, document = run(capsys, "-i", str(ROOT / "inventory" / "h100x8"), "-e", json.dumps(settings))
        (host,) = document["hosts"]
        assert self.gate(document, host) == {"kind": "discrete", "share": 0.92}

    def test_requests_are_as_many_as_the_cache_has_blocks_for(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        document = self.plan(capsys, tmp_path, self.without("max_num_seqs"))
        assert "--max-num-seqs 64 " in self.flags(document)
        assert any("max_num_seqs is set to 64" in note for note in document["notes"])

    def test_in_eager_mode_or_with_partial_graphs_they_are_left_to_the_engine(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        for number, more in enumerate(
            (["--enforce-eager"], ["-cc", '{"cudagraph_mode": "PIECEWISE"}'], ["-cc.cudagraph_mode", "none"])
        ):
            (tmp_path / str(number)).mkdir()
            flags = change("firstlight_serving.flags", ["--language-model-only", *more])
            document = self.plan(capsys, tmp_path / str(number), self.without("max_num_seqs"), flags)
            assert "--max-num-seqs" not in self.flags(document)

    @pytest.mark.parametrize("stack", ["spark-vllm-0.32", "spark-vllm-0.32-multinode", "spark-vllm-0.31-multinode"])
    def test_experts_are_kept_from_deep_gemm_by_every_profile(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, stack: str
    ) -> None:
        document = self.plan(capsys, tmp_path, change("firstlight_stack", stack), PULLED)
        assert self.flags(document).endswith("--moe-backend triton")
        assert self.server(document)["env"]["VLLM_USE_DEEP_GEMM"] == "0"
        assert "--attention-backend" not in self.flags(document), "the engine's own choice"
        assert {one["name"] for one in document["hazards"]} == {"deep-gemm-experts-sm12x", "deep-gemm-linear-sm12x"}

    def test_the_operators_own_variable_wins(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        own = change("inference_server_environment", {"VLLM_USE_DEEP_GEMM": "1"})
        assert self.server(self.plan(capsys, tmp_path, own))["env"]["VLLM_USE_DEEP_GEMM"] == "1"

    def test_a_site_lifts_the_hazard(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        text = (ROOT / "catalog" / "hazards.yml").read_text().replace("before: null", 'before: "0.32.0"')
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "hazards.yml").write_text(text)
        document = self.plan(capsys, tmp_path, change("firstlight_catalog", [str(tmp_path / "site")]))
        assert "--moe-backend" not in self.flags(document)
        assert document["hazards"] == []

    def test_containers_may_open_all_files_of_a_checkpoint(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        document = self.plan(capsys, tmp_path)
        for command in document["hosts"]["spark-alpha"]["launch"]:
            assert "--ulimit=nofile=1048576:1048576" in command["argv"], command["name"]

    @pytest.mark.parametrize(("mib", "refused"), [(124_620, False), (118_000, True)])
    def test_a_fast_load_needs_room_beside_the_weights(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, mib: int, refused: bool
    ) -> None:
        entry = yaml.safe_load((ROOT / "catalog" / "hardware" / "gb10.yml").read_text())
        entry |= {"os_visible_mib": mib, "free_at_start_mib": None}
        (tmp_path / "site" / "hardware").mkdir(parents=True)
        (tmp_path / "site" / "hardware" / "gb10.yml").write_text(yaml.safe_dump(entry))
        catalog = change("firstlight_catalog", [str(tmp_path / "site")])
        _, document = run(capsys, "-i", write(tmp_path, catalog))
        found = [one for one in document["errors"] if one["id"] == "model.load-format"]
        assert bool(found) == refused
        assert not refused or "81%" in found[0]["found"]

    def test_guessed_tokens_fit_with_an_fp8_cache(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """MTP takes 1.6 GiB a host more: with a cache of 16 bits the whole context has no room."""
        guess = change("firstlight_serving.speculative", {"method": "mtp", "tokens": 2})
        _, document = run(capsys, "-i", write(tmp_path, guess))
        assert [one["id"] for one in document["errors"]] == ["fit.context"]
        shutil.rmtree(tmp_path / "bad")
        document = self.plan(capsys, tmp_path, guess, change("firstlight_serving.kv_cache_dtype", "fp8"))
        assert '--speculative-config {"method":"mtp","num_speculative_tokens":2}' in self.flags(document)
        assert any("compare the answers" in note for note in document["notes"])


class TestBadInventories:
    @pytest.mark.parametrize(("wrong", "expected"), [one[1:] for one in BAD], ids=[one[0] for one in BAD])
    def test_each_is_refused_for_what_it_is(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, wrong: Change, expected: set[str]
    ) -> None:
        _, document = run(capsys, "-i", write(tmp_path, wrong))
        assert expected <= {one["id"] for one in document["errors"]}, document["errors"]

    def test_experts_are_spread_only_where_the_engine_is_told_so(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        for stack in ("h100-sglang-0.5.23", "h100-trtllm-1.2"):
            extra = {
                "firstlight_stack": stack,
                "firstlight_model": "qwen3-235b-a22b-fp8",
                "firstlight_serving": {"tensor_parallel": 8, "expert_parallel": True, "max_model_len": 4096},
            }
            _, document = run(capsys, "-i", str(ROOT / "inventory" / "h100x8"), "-e", json.dumps(extra))
            assert "launch.setting" in {one["id"] for one in document["errors"]}

    def test_one_cause_is_refused_once_and_no_secret_is_repeated(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        wrong = [
            change("firstlight_serving.flags", ["--api-key=very-secret", "--hf-token very-secret"]),
            change("firstlight_serving.tensor_parallel", 8),
            change("firstlight_image", "vllm:latest"),
            PULLED,
        ]
        _, document = run(capsys, "-i", write(tmp_path, *wrong))
        found = [one["id"] for one in document["errors"]]
        assert sorted(found) == sorted(["serving.flags", "serving.flags", "serving.parallel", "image.unpinned"])
        assert "very-secret" not in json.dumps(document)

    @pytest.mark.parametrize(
        "first",
        [
            no_head,
            change("firstlight_serving.gpu_memory_utilization", 0.9),
            change("firstlight_serving.tensor_parallel", 8),
            change("firstlight_fabric.rails", []),
            change("firstlight_image", "vllm:latest"),
            change("firstlight_fabric.mtu", 70000),
        ],
    )
    def test_nothing_hides_a_bad_flag_or_a_model_that_does_not_fit(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, first: Change
    ) -> None:
        wrong = [first, change("firstlight_serving.flags", ["--scheduler-policy", "continuous"])]
        _, document = run(capsys, "-i", write(tmp_path, *wrong, change("firstlight_model", "deepseek-v4-pro")))
        assert {"flags.replaced", "fit.too-big"} < {one["id"] for one in document["errors"]}

    def test_a_flag_is_evaluated_without_hardware_and_without_a_model(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        wrong = [change("firstlight_hardware", "gb11"), change("firstlight_model", "nobody")]
        flag = change("firstlight_serving.flags", ["--scheduler-policy", "continuous"])
        _, document = run(capsys, "-i", write(tmp_path, *wrong, flag))
        assert {one["id"] for one in document["errors"]} == {"hardware.unknown", "model.unknown", "flags.replaced"}
        assert document["fit"]["fits"] is None
        assert document["hosts"]["spark-delta"]["fabric"][0]["address"] == "192.168.100.13/24"

    def test_all_at_once(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        some = [one for one in BAD if one[0] in ("two heads", "utilisation 0.9", "MTU 70000", "misspelt key of a rail")]
        _, document = run(capsys, "-i", write(tmp_path, *(one[1] for one in some)))
        assert {one["id"] for one in document["errors"]} == set().union(*(one[2] for one in some))

    @pytest.mark.parametrize(
        "content",
        [
            '{"model_type": "qwen3", "num_hidden_layers": 9',
            "[]",
            "null",
            "NaN",
            '{"num_hidden_layers": -1, "hidden_size": 1e400}',
            '{"num_hidden_layers": 10000000000000000000000000000, "hidden_size": true, "vocab_size": "many"}',
            '{"model_type": ["x"], "text_config": {"text_config": {"text_config": 7}}}',
            "[" * 100_000,
            "\x00\xff",
            "",
        ],
    )
    def test_a_hostile_config(self, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str) -> None:
        config = tmp_path / "config.json"
        config.write_text(content, encoding="latin-1")
        wrong = [change("firstlight_model", "some/model"), change("firstlight_model_config", str(config))]
        _, document = run(capsys, "-i", write(tmp_path, *wrong))
        assert "model.config" in {one["id"] for one in document["errors"]}

    def test_a_model_of_ones_own(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        config = tmp_path / "config.json"
        config.write_text(
            json.dumps(
                {
                    "model_type": "llama",
                    "torch_dtype": "bfloat16",
                    "num_hidden_layers": 80,
                    "hidden_size": 8192,
                    "intermediate_size": 28672,
                    "num_attention_heads": 64,
                    "num_key_value_heads": 8,
                    "vocab_size": 128256,
                    "max_position_embeddings": 131072,
                }
            )
        )
        mine = [change("firstlight_model", "me/My-70B"), change("firstlight_model_config", str(config))]
        mine += [change("firstlight_serving.flags", [])]
        status, document = run(capsys, "-i", write(tmp_path, *mine))
        assert status == 0, document["errors"]
        assert document["cluster"]["model"] == "my-70b"
        assert document["fit"]["fits"] is True

    def test_an_inventory_that_is_none(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        (tmp_path / "broken.yml").write_text("cluster: {hosts: [\n")
        (tmp_path / "template").mkdir()
        shutil.copytree(ROOT / "inventory" / "spark4", tmp_path / "template", dirs_exist_ok=True)
        (tmp_path / "template" / "group_vars" / "all.yml").write_text("firstlight_hardware: '{{ nowhere }}'\n")
        for place in ("missing", "broken.yml", "template"):
            _, document = run(capsys, "-i", str(tmp_path / place))
            assert [one["id"] for one in document["errors"]] == ["inventory.unreadable"]

    def test_a_person_reads_what_to_change(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        assert main(["plan", "-i", write(tmp_path, change("firstlight_fabric.mtu", 70000))]) == 2
        shown = capsys.readouterr().out
        assert "firstlight_fabric.mtu is 70000 [fabric.mtu]" in shown
        assert "   fix:  write 9000" in shown


VAULTED = "!vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3132\n"


def test_a_secret_is_never_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    inventory = write(tmp_path)
    (Path(inventory) / "group_vars" / "cluster.yml").write_text("ray_cluster_token: very-secret\n")
    status, document = run(capsys, "-i", inventory)
    assert status == 0, document["errors"]
    assert "very-secret" not in json.dumps(document)


@pytest.mark.parametrize("name", ["inference_server_api_key", "firstlight_image", "ansible_host"])
def test_a_vaulted_value_without_its_password_is_refused_once_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    inventory = write(tmp_path)
    for host in ("spark-alpha", "spark-beta"):
        (Path(inventory) / "host_vars").mkdir(exist_ok=True)
        (Path(inventory) / "host_vars" / f"{host}.yml").write_text(f"{name}: {VAULTED}")
    status, document = run(capsys, "-i", inventory)
    assert status == 2
    (error,) = document["errors"]
    assert error["id"] == "inventory.vault"
    assert error["found"].startswith(f"variable {name} of spark-alpha and 1 more host is encrypted")
    assert "--vault-password-file" in error["remedy"]


def test_an_encrypted_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    inventory = Path(write(tmp_path))
    (inventory / "group_vars" / "head.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n3132\n")
    _, document = run(capsys, "-i", str(inventory))
    (error,) = document["errors"]
    assert error["id"] == "inventory.vault"
    assert error["found"].startswith(f"{inventory / 'group_vars' / 'head.yml'} is encrypted")


def test_another_model_and_stack_are_planned_as_the_playbook_plans_them(capsys: pytest.CaptureFixture[str]) -> None:
    inventory = ["-i", str(ROOT / "inventory" / "h100x8")]
    _, document = run(capsys, *inventory, "-e", "plan_stack=h100-vllm-0.32", "-e", "plan_model=qwen2.5-72b")
    assert (document["cluster"]["stack"], document["cluster"]["model"]) == ("h100-vllm-0.32", "qwen2.5-72b")
    _, document = run(capsys, *inventory, "-e", '{"plan_serving": {"max_num_seqs": 77, "prefix_caching": null}}')
    assert "--max-num-seqs 77" in json.dumps(document).replace('", "', " ")
    assert "prefix-caching" not in json.dumps(document["hosts"])
    _, document = run(capsys, *inventory, "-e", "plan_model=nobody", "-e", "plan_stack=")
    assert [one["id"] for one in document["errors"]] == ["model.unknown"]
