# SPDX-License-Identifier: Apache-2.0
"""Where compiled kernels are kept, how that is named, and what may never be touched."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import (
    CONTAINER_ROOT,
    TARGET,
    VENV_ROOT,
    cache_environment,
    cache_name,
    cache_path,
    checked,
    container_environment,
    expected_instead,
    in_order_of_use,
    is_cache_path,
    mount_options,
    prepare_commands,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import (
    Command,
    LaunchDescription,
    LaunchHost,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.launching import commands

DIGEST = "a1b2c3d4e5f6" + "0" * 52
IMAGE = f"firstlight/engine:sha256-{DIGEST}"
PARTS = ("qwen3.5-397b-a17b-fp8", "ea5b4f81096f3901c91dea97f81324302495781d", "tp4-pp1", "sm121", f"{IMAGE}-ray-2.60.0")
PATH = f"{CONTAINER_ROOT}/tiny-0-tp1-pp1-sm90-1"
CACHE = {"path": PATH, "variables": {"VLLM_CACHE_ROOT": "vllm", "TRITON_CACHE_DIR": "triton"}}


def test_the_name_says_what_it_is_for() -> None:
    name = cache_name(*PARTS)
    assert name.startswith("qwen3.5-397b-a17b-fp8-ea5b4f81096f-tp4-pp1-sm121-a1b2c3d4e5f6-ray-2.60.0-")
    assert is_cache_path(cache_path("docker", name))
    assert is_cache_path(cache_path("venv", name))
    assert cache_path("venv", name).startswith(f"{VENV_ROOT}/")


@given(
    one=st.tuples(*[st.text(max_size=80)] * 5),
    other=st.tuples(*[st.text(max_size=80)] * 5),
    runtime=st.sampled_from(["docker", "venv"]),
)
def test_whatever_the_parts_are_two_combinations_have_two_names_and_none_leads_out(
    one: tuple[str, ...], other: tuple[str, ...], runtime: str
) -> None:
    assert is_cache_path(cache_path(runtime, cache_name(*one)))
    assert (cache_name(*one) == cache_name(*other)) == (one == other)


@pytest.mark.parametrize("changed", range(5))
def test_another_image_model_layout_or_gpu_is_another_directory(changed: int) -> None:
    parts = list(PARTS)
    parts[changed] = parts[changed].replace("a", "b", 1).replace("4-", "8-").replace("121", "120")
    assert cache_name(*parts) != cache_name(*PARTS)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        CONTAINER_ROOT,
        f"{CONTAINER_ROOT}/",
        f"{CONTAINER_ROOT}/../models",
        f"{CONTAINER_ROOT}/x/..",
        f"{CONTAINER_ROOT}/.hidden",
        f"{CONTAINER_ROOT}/a,b",
        f"{CONTAINER_ROOT}x/y",
        "/var/lib/firstlight/models/x",
        "compile-cache/x",
    ],
)
def test_nothing_else_is_taken_for_a_cache(path: str) -> None:
    assert not is_cache_path(path)


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        (None, "a mapping with path and variables"),
        ({"where": PATH}, "a mapping with path and variables"),
        ({"path": "/etc"}, "as its path a directory below"),
        ({"path": 7}, "as its path a directory below"),
        ({"path": PATH, "variables": ["A"]}, "as its variables names in capitals"),
        ({"path": PATH, "variables": {"A": "/etc"}}, "as its variables names in capitals"),
        ({"path": PATH, "variables": {"A": "../../etc"}}, "as its variables names in capitals"),
        ({"path": PATH, "variables": {"a=b": "x"}}, "as its variables names in capitals"),
        ({"path": PATH, "variables": {"A": ""}}, "as its variables names in capitals"),
    ],
)
def test_what_is_no_cache_is_refused_with_what_was_expected(cache: Any, words: str) -> None:
    assert words in str(expected_instead(cache))
    with pytest.raises(ValueError, match=r"role_compile_cache is .*, expected .*: correct it"):
        checked(cache, "role_compile_cache")


def test_a_cache_and_none_are_right() -> None:
    assert expected_instead(CACHE) is None
    assert expected_instead({}) is None
    assert checked(CACHE, "x") is CACHE


def test_compilers_are_sent_there_and_each_replica_to_a_part_of_its_own() -> None:
    assert container_environment(CACHE) == {
        "VLLM_CACHE_ROOT": f"{TARGET}/vllm",
        "TRITON_CACHE_DIR": f"{TARGET}/triton",
    }
    assert container_environment(CACHE, "server-1")["VLLM_CACHE_ROOT"] == f"{TARGET}/server-1/vllm"
    assert cache_environment(CACHE, PATH)["TRITON_CACHE_DIR"] == f"{PATH}/triton"
    assert container_environment({}) == cache_environment({}, "None") == {}
    assert mount_options({}) == []
    assert prepare_commands({}) == []


def test_only_root_enters_and_below_a_container_writes_as_whatever_user_it_has() -> None:
    assert mount_options(CACHE) == [f"--mount=type=bind,source={PATH},target={TARGET}"]
    assert prepare_commands(CACHE) == [
        ["/usr/bin/install", "-d", "-m", "0700", CONTAINER_ROOT],
        ["/usr/bin/install", "-d", "-m", "1777", PATH],
    ]


def test_the_current_one_is_first() -> None:
    assert in_order_of_use(["b", "a"], "a") == ["a", "b"]
    assert in_order_of_use([], "a") == ["a"]


# --- every way of launching -------------------------------------------------------------------------------------------

HOSTS = (LaunchHost("spark0", 0, "192.168.100.10", "eth0"), LaunchHost("spark1", 1, "192.168.100.11", "eth0"))


def launched(profile: str, hosts: tuple[LaunchHost, ...], **more: Any) -> dict[str, list[Command]]:
    described = LaunchDescription(
        profile=profile,
        model_directory="/models/tiny",
        served_name="tiny",
        hosts=hosts,
        head="spark0",
        image=IMAGE,
        **{"compile_cache": CACHE, "tensor_parallel": len(hosts), **more},
    )
    return {host.name: commands(described, host.name) for host in hosts}


@pytest.mark.parametrize(
    ("profile", "hosts", "more"),
    [
        ("vllm-ray", HOSTS, {}),
        ("vllm-multinode", HOSTS, {}),
        ("vllm-single", HOSTS[:1], {}),
        ("vllm-replicas", HOSTS[:1], {"replicas": 2, "gpus_per_host": 2}),
        ("ray-serve", HOSTS, {"tensor_parallel": 1, "replicas": 2}),
        ("sglang", HOSTS, {}),
        ("sglang", HOSTS[:1], {}),
        ("tensorrt-llm", HOSTS, {}),
        ("tensorrt-llm", HOSTS[:1], {}),
    ],
)
def test_every_container_that_computes_has_the_cache(
    profile: str, hosts: tuple[LaunchHost, ...], more: dict[str, Any]
) -> None:
    for host, started in launched(profile, hosts, **more).items():
        engines = [command for command in started if command["container"]]
        assert engines, host
        for command in engines:
            mounted = [word for word in command["argv"] if word.endswith(f"target={TARGET}")]
            beside_ray = "--volumes-from=firstlight-ray" in command["argv"]
            # Docker refuses the same place twice, and what it has from the Ray container is the same.
            assert mounted == ([] if beside_ray else mount_options(CACHE)), (host, command["name"])
            assert command["env"]["VLLM_CACHE_ROOT"].startswith(f"{TARGET}/")
            assert f"--env=TRITON_CACHE_DIR={command['env']['TRITON_CACHE_DIR']}" in command["argv"]


def test_replicas_do_not_write_into_each_others_caches() -> None:
    servers = launched("vllm-replicas", HOSTS[:1], replicas=2, gpus_per_host=2)["spark0"][:2]
    assert [one["env"]["VLLM_CACHE_ROOT"] for one in servers] == [f"{TARGET}/server-{n}/vllm" for n in (0, 1)]


def test_out_of_a_virtual_environment_the_host_s_own_path_is_meant() -> None:
    cache = {**CACHE, "path": f"{VENV_ROOT}/tiny"}
    (server,) = launched("vllm-single", HOSTS[:1], runtime="venv", compile_cache=cache)["spark0"]
    assert server["env"]["VLLM_CACHE_ROOT"] == f"{VENV_ROOT}/tiny/vllm"


def test_the_operators_own_variable_wins() -> None:
    (server,) = launched("vllm-single", HOSTS[:1], environment={"TRITON_CACHE_DIR": "/mine"})["spark0"]
    assert server["env"]["TRITON_CACHE_DIR"] == "/mine"


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="compile_cache of the launch is"):
        launched("vllm-single", HOSTS[:1], compile_cache={"path": "/etc"})


def test_without_a_cache_nothing_is_mounted() -> None:
    (server,) = launched("vllm-single", HOSTS[:1], compile_cache={})["spark0"]
    assert not [word for word in server["argv"] if TARGET in word]
