# SPDX-License-Identifier: Apache-2.0
"""One launch description, every profile: golden commands, and what must hold for every description."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    checked_container,
    container_expected_instead,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.checks import problems
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import (
    LaunchDescription,
    ranked_hosts,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.flags import flag_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving import inference_server, ray_cluster
from hypothesis import given

from tests.unit.launching import commands, read_description

TESTS = Path(__file__).resolve().parents[4]
GOLDEN = TESTS / "golden" / "launch"
IMAGE = "registry.example/engine@sha256:" + "0f" * 32
LAUNCHES: dict[str, dict[str, Any]] = {
    name: values
    for name, values in yaml.safe_load((TESTS / "fixtures" / "launches.yml").read_text()).items()
    if not name.startswith(".")
}


def launch(name: str, **changes: Any) -> LaunchDescription:
    return read_description({**LAUNCHES[name], **changes})


def rendered(description: LaunchDescription) -> dict[str, Any]:
    return {host.name: commands(description, host.name) for host in description.hosts}


@pytest.mark.parametrize("name", LAUNCHES)
def test_commands_are_the_golden_ones(name: str) -> None:
    """Regenerate with FIRSTLIGHT_UPDATE_GOLDEN=1, and read the difference before you commit it."""
    text = json.dumps(rendered(launch(name)), indent=2) + "\n"
    if os.environ.get("FIRSTLIGHT_UPDATE_GOLDEN"):
        (GOLDEN / f"{name}.json").write_text(text)
    assert text == (GOLDEN / f"{name}.json").read_text()


RIGHTS = {"IPC_LOCK", "NET_BIND_SERVICE"}
RIGHTS_OF_SSHD = {"AUDIT_WRITE", "SETGID", "SETUID", "SYS_CHROOT"}


@pytest.mark.hostile
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_container_has_no_right_that_it_does_not_need(name: str) -> None:
    for record in (one for records in rendered(launch(name)).values() for one in records if one["container"]):
        argv = record["argv"]
        assert "--cap-drop=ALL" in argv
        assert "--security-opt=no-new-privileges" in argv
        added = {word.partition("=")[2] for word in argv if word.startswith("--cap-add")}
        assert added == RIGHTS | (RIGHTS_OF_SSHD if "ListenAddress" in " ".join(argv) else set())
        assert not {"--privileged", "--userns=host", "--ipc=host", "--pid=host"} & set(argv)
        assert {word for word in argv if word.startswith("--device")} <= {"--device=/dev/infiniband"}
        assert not [word for word in argv if "docker.sock" in word or "unconfined" in word]
        writable = [word for word in argv if word.startswith("--mount=") and not word.endswith(",readonly")]
        assert all("source=/var/lib/firstlight/compile-cache/" in word for word in writable)


def test_an_engine_that_is_known_to_write_in_few_places_writes_nowhere_else() -> None:
    container = {"capabilities": ["SYS_NICE"], "writable": ["/root", "/tmp"]}
    for name in ("vllm-single", "vllm-ray"):
        for records in rendered(launch(name, container=container)).values():
            for argv in (record["argv"] for record in records):
                assert argv.count("--read-only") == argv.count("--volume=/root") == argv.count("--volume=/tmp") == 1
                assert [word for word in argv if word.startswith("--cap-add")] == [
                    "--cap-add=IPC_LOCK",
                    "--cap-add=NET_BIND_SERVICE",
                    "--cap-add=SYS_NICE",
                ]


@pytest.mark.hostile
@pytest.mark.parametrize(
    "container",
    [
        {"capabilities": ["ALL"]},
        {"capabilities": ["SYS_ADMIN --privileged"]},
        {"capabilities": "SYS_NICE"},
        {"writable": ["/etc:/etc"]},
        {"writable": ["/tmp,readonly"]},
        {"writable": ["/root/../etc"]},
        {"writable": ["tmp"]},
        {"writable": ["/"]},
        {"options": ["--privileged"]},
        ["--privileged"],
    ],
)
def test_what_a_container_may_do_says_nothing_else(container: Any) -> None:
    expected = container_expected_instead(container)
    assert expected
    assert [problem.found for problem in problems(launch("vllm-single", container=container))] == [
        f"container of the launch is {container!r}"
    ]
    with pytest.raises(ValueError, match="x is "):
        checked_container(container, "x")


@pytest.mark.parametrize("name", LAUNCHES)
def test_words_are_plain_and_hold_no_secret(name: str) -> None:
    for records in rendered(launch(name)).values():
        for record in records:
            words = [*record["argv"], *record["engine_argv"], *record["env"], *record["env"].values()]
            assert all(isinstance(word, str) and word.isprintable() for word in words)
            assert not [word for word in words if flag_name(word) == "--api-key"]
            assert not [variable for variable in record["env"] if variable.endswith(("_KEY", "_TOKEN"))]


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_description_survives_being_written_down(name: str) -> None:
    description = launch(name)
    assert read_description(json.loads(json.dumps(description.document()))) == description


@pytest.mark.parametrize("name", ["vllm-multinode", "sglang-multinode"])
def test_each_host_has_a_rank_of_its_own_in_one_world(name: str) -> None:
    argvs = [records[0]["engine_argv"] for records in rendered(launch(name)).values()]
    ranks = [word for argv in argvs for word in argv if word.startswith("--node-rank=")]
    assert ranks == [f"--node-rank={rank}" for rank in range(4)]
    assert {word for argv in argvs for word in argv if word.startswith("--nnodes=")} == {"--nnodes=4"}
    meeting = ("--master-addr=192.168.100.10", "--dist-init-addr=192.168.100.10:29501")
    assert all(any(word in argv for word in meeting) for argv in argvs)


@pytest.mark.slow  # a property over whole groups of hosts
@given(st.integers(1, 12), st.integers(0, 11), st.sampled_from(["vllm-multinode", "sglang"]), st.integers(1, 8))
def test_ranks_are_distinct_whatever_the_head(size: int, head: int, profile: str, gpus: int) -> None:
    names = [f"n{number}" for number in range(size)]
    chosen = names[head % size]
    hosts = ranked_hosts([{"name": name, "address": f"10.0.0.{n + 1}"} for n, name in enumerate(names)], chosen)
    description = LaunchDescription(
        profile=profile,
        model_directory="/m",
        served_name="m",
        hosts=hosts,
        head=chosen,
        image=IMAGE,
        tensor_parallel=gpus,
        pipeline_parallel=size,
        gpus_per_host=gpus,
    )
    assert problems(description) == []
    assert description.head_host.rank == 0
    assert [host.name for host in hosts] == names
    argvs = [record[0]["engine_argv"] for record in rendered(description).values()]
    if size > 1 or profile == "vllm-multinode":
        ranks = {word for argv in argvs for word in argv if word.startswith("--node-rank=")}
        assert len(ranks) == size


@given(
    st.dictionaries(
        st.sampled_from(sorted(set(LAUNCHES["vllm-single"]) - {"hosts"})),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(allow_nan=True),
            st.text(max_size=20),
            st.lists(st.text(max_size=5), max_size=3),
            st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_anything_else_is_refused_in_words(changes: dict[str, Any]) -> None:
    records, told = [], "rendered"
    try:
        description = read_description({**LAUNCHES["vllm-single"], **changes})
        records = commands(description, description.head)
    except ValueError as error:
        told = str(error)
    assert told
    words = [word for record in records for word in record["argv"]]
    assert all(isinstance(word, str) and "\x00" not in word and "\n" not in word for word in words)


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("vllm-single", {"profile": "vllm"}, "launch.value", "expected one of vllm-ray, vllm-multinode"),
    ("vllm-single", {"tensor_parallel": 16}, "launch.world", "makes 16 ranks on 1 x 8 GPUs"),
    ("vllm-multinode", {"tensor_parallel": 8}, "launch.world", "make the product 4"),
    ("vllm-multinode", {"tensor_parallel": 2}, "launch.world", "makes 2 ranks on 4 x 1 GPUs"),
    ("vllm-single", {"tensor_parallel": True}, "launch.value", "tensor_parallel of the launch is True"),
    ("vllm-single", {"gpu_memory_utilization": float("nan")}, "launch.value", "above 0 and at most 1"),
    ("vllm-single", {"image": "vllm:nightly"}, "launch.image", "not pinned"),
    ("vllm-single", {"model_directory": "models"}, "launch.path", "cannot mount 'models'"),
    ("vllm-single", {"head": "nobody"}, "launch.value", "one of the hosts h100"),
    ("vllm-single", {"served_name": "a\nb"}, "launch.value", "without control characters"),
    ("vllm-single", {"flags": ["--api-key=x"]}, "launch.secret", "readable by every user"),
    ("vllm-single", {"flags": ["--tensor_parallel_size", "2"]}, "launch.flags", "flags has --tensor-parallel-size"),
    ("vllm-single", {"flags": ["--max-model-len=9"]}, "launch.flags", "max_model_len writes it too"),
    ("vllm-single", {"environment": {"HF_TOKEN": "x"}}, "launch.secret", "the environment has HF_TOKEN"),
    ("vllm-single", {"environment": {"A B": "x"}}, "launch.value", "names of letters"),
    ("vllm-single", {"speculative": {"method": "eagle", "tokens": 2}}, "launch.setting", "method: mtp"),
    ("vllm-single-venv", {"reasoning_parser": "deepseek_r1", "version": "0.6.3"}, "launch.setting", "since 0.7"),
    ("vllm-single-venv", {"speculative": {"method": "mtp", "tokens": 1}}, "launch.setting", "no --speculative-config"),
    ("vllm-multinode", {"runtime": "venv"}, "launch.runtime", "this profile runs in docker"),
    ("vllm-replicas", {"replicas": 5}, "launch.world", "5 replicas of 2 ranks make 10 ranks on 8 GPUs"),
    ("vllm-replicas", {"replicas": 17}, "launch.value", "a whole number from 1 to 16"),
    ("vllm-replicas", {"port": 65534}, "launch.replicas", "set port to 65533 or less"),
    ("vllm-single", {"replicas": 2}, "launch.replicas", "use profile vllm-replicas"),
    ("vllm-multinode", {"version": "0.9.2"}, "launch.version", "since 0.11.1"),
    ("vllm-multinode", {"head": "spark2"}, "launch.ranks", "give spark2 rank 0"),
    ("vllm-ray", {"ray_worker_ports": "80-90"}, "launch.value", "1024 <= FIRST < LAST"),
    ("tensorrt-llm-single", {"listen": "0.0.0.0"}, "launch.listen", "tensorrt-llm would listen on 0.0.0.0"),
    ("tensorrt-llm-single", {"kv_cache_dtype": "fp8_e5m2"}, "launch.setting", "auto, fp8, nvfp4"),
    ("tensorrt-llm-single", {"served_name": "Qwen/Qwen3"}, "launch.setting", "set served_name to Qwen3"),
    ("tensorrt-llm-single", {"flags": ["--tp_size=2"]}, "launch.flags", "flags has --tp-size"),
]


@pytest.mark.parametrize(("name", "changes", "identifier", "words"), BAD)
def test_a_bad_description_says_what_is_wrong(name: str, changes: dict[str, Any], identifier: str, words: str) -> None:
    description = launch(name, **changes)
    found = problems(description)
    assert [problem.id for problem in found] == [identifier]
    assert words in found[0].sentence
    with pytest.raises(ValueError, match=r"\w"):
        commands(description, description.head)


def test_everything_wrong_is_told_at_once() -> None:
    description = launch("vllm-single", tensor_parallel=16, image="x", flags=["--port=1"])
    assert [problem.id for problem in problems(description)] == ["launch.world", "launch.image", "launch.flags"]


def test_hosts_are_told_apart() -> None:
    twice = [{"name": "a", "rank": 0, "address": "10.0.0.1"}, {"name": "a", "rank": 0, "address": "10.0.0.1"}]
    found = problems(launch("vllm-multinode", hosts=twice, head="a", tensor_parallel=2))
    assert [problem.id for problem in found] == ["launch.hosts", "launch.hosts", "launch.ranks"]


def test_mpi_has_one_environment() -> None:
    hosts = [{**host, "interface": f"port{host['rank']}"} for host in LAUNCHES["tensorrt-llm-multinode"]["hosts"]]
    found = problems(launch("tensorrt-llm-multinode", hosts=hosts))
    assert [problem.id for problem in found] == ["launch.hosts"] * 3


def test_only_a_host_of_the_launch_has_commands() -> None:
    with pytest.raises(ValueError, match="its hosts are h100"):
        commands(launch("vllm-single"), "spark9")


def test_the_settings_file_is_yaml() -> None:
    record = commands(launch("tensorrt-llm-single"), "h100")[0]
    assert yaml.safe_load(record["files"]["/etc/firstlight/tensorrt-llm.yml"]) == {
        "max_seq_len": 131072,
        "kv_cache_config": {"free_gpu_memory_fraction": 0.85, "dtype": "fp8", "enable_block_reuse": True},
        "max_batch_size": 16,
        "max_num_tokens": 4096,
        "speculative_config": {"decoding_type": "MTP", "num_nextn_predict_layers": 2},
    }
    empty = dict.fromkeys(["max_model_len", "gpu_memory_utilization", "kv_cache_dtype", "max_num_seqs"])
    nothing = launch("tensorrt-llm-single", **empty, max_num_batched_tokens=None, prefix_caching=None, speculative=None)
    assert commands(nothing, "h100")[0]["files"] == {"/etc/firstlight/tensorrt-llm.yml": "---\n{}\n"}


def test_the_roles_run_the_same_commands() -> None:
    description = launch("vllm-ray", **dict.fromkeys(["kv_cache_dtype", "speculative"]), environment={"A": "1"})
    ray, server = commands(description, "spark0")
    flags = server["engine_argv"][server["engine_argv"].index("--port=290") + 1 :]
    head = description.head_host
    assert server["argv"] == inference_server.arguments(
        {
            **inference_server.DEFAULTS,
            "inference_server_image": IMAGE,
            "inference_server_model_directory": description.model_directory,
            "inference_server_served_name": "qwen",
            "inference_server_tensor_parallel": 4,
            "inference_server_node_address": head.address,
            "inference_server_flags": flags,
            "inference_server_environment": {"A": "1"},
            "inference_server_start_timeout": 0,
        }
    )
    assert ray["argv"] == ray_cluster.arguments(
        {
            **ray_cluster.DEFAULTS,
            "ray_cluster_image": IMAGE,
            "ray_cluster_node_address": head.address,
            "ray_cluster_head_address": head.address,
            "ray_cluster_is_head": True,
            "ray_cluster_interface": head.interface,
            "ray_cluster_model_directory": description.model_directory,
            "ray_cluster_environment": head.environment,
            "ray_cluster_rdma": True,
        }
    )


@given(st.integers(1, 16), st.integers(1, 8), st.integers(1, 4), st.integers(0, 8), st.integers(1, 65_000))
def test_replicas_share_neither_gpu_nor_port(number: int, tensor: int, stages: int, spare: int, port: int) -> None:
    description = launch(
        "vllm-replicas",
        replicas=number,
        tensor_parallel=tensor,
        pipeline_parallel=stages,
        gpus_per_host=number * tensor * stages + spare,
        port=port,
    )
    assert problems(description) == []
    *servers, balancer = commands(description, "h100")
    gpus = [gpu for one in servers for gpu in one["env"]["CUDA_VISIBLE_DEVICES"].split(",")]
    assert gpus == [str(gpu) for gpu in range(number * tensor * stages)]
    ports = [word for one in servers for word in one["argv"] if word.startswith("--port=")]
    assert ports == [f"--port={port + 1 + replica}" for replica in range(number)]
    assert len({one["container"] for one in servers}) == number
    assert all("--host=127.0.0.1" in one["argv"] for one in servers)
    (written,) = balancer["files"].values()
    assert f"listen 192.168.100.10:{port};" in written
    assert written.count("max_fails=1") == number


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.11.1", []),
        ("0.18.0", ["--distributed-timeout-seconds=600"]),
        ("0.32.0", ["--distributed-timeout-seconds=600", "--cpu-distributed-timeout-seconds=600"]),
        (None, ["--distributed-timeout-seconds=600", "--cpu-distributed-timeout-seconds=600"]),
    ],
)
def test_a_missing_rank_ends_the_start_where_the_engine_can_be_told(version: str | None, expected: list[str]) -> None:
    for profile in ("vllm-ray", "vllm-multinode", "vllm-single", "vllm-replicas"):
        server = commands(launch(profile, version=version, **dict.fromkeys(["speculative"])), launch(profile).head)
        words = next(one["argv"] for one in server if one["name"].startswith("server"))
        assert [word for word in words if "timeout-seconds" in word] == expected, profile
    alone = commands(launch("vllm-single", tensor_parallel=1), "h100")[0]["argv"]
    assert not [word for word in alone if "timeout-seconds" in word]


def test_no_container_shares_memory_with_its_host() -> None:
    for name in LAUNCHES:
        for records in rendered(launch(name)).values():
            for record in records:
                assert "--ipc=host" not in record["argv"]
                if record["container"]:
                    assert sum(word.startswith("--ipc=") for word in record["argv"]) == 1
    ray, server = commands(launch("vllm-ray", shared_memory="2g"), "spark0")
    assert {"--ipc=shareable", "--shm-size=2g"} <= {*ray["argv"]}
    assert "--ipc=container:firstlight-ray" in server["argv"]
    assert not [word for word in server["argv"] if word.startswith("--shm-size")]
