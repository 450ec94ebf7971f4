# SPDX-License-Identifier: Apache-2.0
"""How long a start may take follows from what it has to read and to compile, unless the operator says otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import CONTAINER_ROOT, VENV_ROOT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError, load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.caches import load_caches
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.compile_cache import compile_cache
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.startup import LONGEST, startup
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config
from hypothesis import given
from hypothesis import strategies as st

from firstlight.cli import main

ROOT = Path(__file__).parents[6]
HARDWARE = load_catalog([ROOT / "catalog"])["hardware"]
GIB = 1 << 30


def choices(hardware: str | dict[str, Any] = "gb10", hosts: int = 4, **changes: Any) -> ResolvedIntent:
    """Only what a limit is made from."""
    own = changes.pop("own", {})
    model = changes.pop("model", {"name": "tiny", "size_bytes": 400 * GIB})
    serving = {
        "tensor_parallel": 4,
        "pipeline_parallel": 1,
        "replicas": 1,
        "start_timeout": None,
        "disk_read_gb_s": None,
        "compile_cache": True,
        "runtime": "docker",
        **changes,
    }
    made = SimpleNamespace(
        hosts=tuple(range(hosts)),
        head=SimpleNamespace(variables=own),
        hardware=HARDWARE[hardware] if isinstance(hardware, str) else hardware,
        model=model,
        revision="1" * 40,
        serving=SimpleNamespace(**serving),
    )
    return cast(ResolvedIntent, made)


def fit(size: int) -> dict[str, Any]:
    return {"weights_bytes_per_gpu": size}


def test_four_sparks_with_93_gib_a_rank_have_about_an_hour() -> None:
    found = startup(choices(), fit(93 * GIB))
    assert (found.weights_bytes_per_host, found.weights_from, found.ranks_per_host) == (93 * GIB, "fit", 1)
    assert (found.read_s, found.compile_s) == (999, 2400)
    assert found.limit_s == found.computed_s == 3420
    assert (found.limit_from, found.disk_read_from) == ("computed", "catalog, hardware gb10")
    assert 900 < found.progress_timeout_s < found.limit_s
    assert found.wait_s > found.limit_s
    assert found.notes() == []


def test_published_loads_of_that_machine_end_before_the_limit() -> None:
    """77.8 GiB a rank in 569 s, 80 GB in 559 s, and 36 minutes of compiling behind either."""
    for size, seconds in ((int(77.8 * GIB), 569), (80 * 10**9, 559)):
        found = startup(choices(), fit(size))
        assert seconds < found.read_s
        assert seconds + 36 * 60 < found.limit_s


def test_all_ranks_of_a_host_read_from_the_same_disks() -> None:
    alone = startup(choices("h100-sxm-8", hosts=1, tensor_parallel=8), fit(30 * 10**9))
    assert (alone.ranks_per_host, alone.weights_bytes_per_host, alone.read_s) == (8, 240 * 10**9, 480)
    replicas = startup(choices("h100-sxm-8", hosts=1, tensor_parallel=2, replicas=4), fit(30 * 10**9))
    assert replicas.read_s == alone.read_s


def test_a_measured_rate_is_believed() -> None:
    found = startup(choices(disk_read_gb_s=0.5), fit(100 * 10**9))
    assert (found.read_s, found.disk_read_from) == (200, "firstlight_serving.disk_read_gb_s")


@pytest.mark.parametrize(
    ("model", "computed", "weights", "whence"),
    [
        ({"name": "m", "size_bytes": 400 * 10**9}, None, 100 * 10**9, "files"),
        ({"name": "m", "size_bytes": 400 * 10**9}, {"weights_bytes_per_gpu": 0}, 100 * 10**9, "files"),
        ({"name": "m"}, None, int(124620 * (1 << 20) * 0.85), "memory"),
    ],
)
def test_what_is_not_known_is_taken_from_the_slow_side(
    model: dict[str, Any], computed: dict[str, Any] | None, weights: int, whence: str
) -> None:
    found = startup(choices(model=model), computed)
    assert (found.weights_bytes_per_rank, found.weights_from) == (weights, whence)


def test_hardware_that_says_nothing_of_it_is_as_slow_as_the_slowest() -> None:
    entry = {key: value for key, value in HARDWARE["h100-sxm-8"].items() if key != "startup"}
    found = startup(choices(entry, hosts=1, tensor_parallel=8), fit(10**9))
    assert found.disk_read_from == "catalog, rules/startup.yml"
    slowest = min(one["startup"]["disk_read_gb_s"] for one in HARDWARE.values())
    assert found.disk_read_gb_s == slowest
    assert found.compile_s == max(one["startup"]["compile_s"] for one in HARDWARE.values())


@pytest.mark.parametrize(
    ("changes", "limit", "whence"),
    [
        ({"start_timeout": 7200}, 7200, "firstlight_serving.start_timeout"),
        ({"own": {"inference_server_start_timeout": "5000"}}, 5000, "inference_server_start_timeout"),
        (
            {"start_timeout": 7200, "own": {"inference_server_start_timeout": 5000}},
            5000,
            "inference_server_start_timeout",
        ),
        ({"own": {"supervisor_start_timeout": 6000}}, 6000, "supervisor_start_timeout"),
        ({"own": {"inference_server_start_timeout": "soon"}}, 3420, "computed"),
    ],
)
def test_what_the_operator_sets_holds(changes: dict[str, Any], limit: int, whence: str) -> None:
    found = startup(choices(**changes), fit(93 * GIB))
    assert (found.limit_s, found.limit_from, found.computed_s) == (limit, whence, 3420)
    assert found.notes() == []


def test_one_that_is_shorter_than_a_start_takes_is_told() -> None:
    (note,) = startup(choices(start_timeout=900), fit(93 * GIB)).notes()
    assert note.startswith("firstlight_serving.start_timeout is 900 s, a start may take 3420 s (999 s to read, 2400 s")


@given(
    hardware=st.sampled_from(sorted(HARDWARE)),
    size=st.integers(1, 10**13),
    hosts=st.integers(1, 64),
    parallel=st.integers(1, 64),
    rate=st.none() | st.floats(0.001, 1000),
)
def test_a_limit_is_long_enough_for_its_parts_and_more_bytes_never_shorten_it(
    hardware: str, size: int, hosts: int, parallel: int, rate: float | None
) -> None:
    made = choices(hardware, hosts=hosts, tensor_parallel=parallel, disk_read_gb_s=rate)
    found = startup(made, fit(size))
    assert 900 <= found.limit_s <= LONGEST
    assert found.limit_s == LONGEST or found.limit_s >= found.read_s + found.compile_s
    assert startup(made, fit(size + 10**9)).limit_s >= found.limit_s
    assert json.loads(json.dumps(found.document())) == found.document()


# --- the whole plan ---------------------------------------------------------------------------------------------------

SPARK4 = str(ROOT / "inventory" / "spark4")
IMAGE = f"vllm/vllm-openai@sha256:{'a' * 64}"


def planned(capsys: pytest.CaptureFixture[str], *extra: str) -> dict[str, Any]:
    assert main(["plan", "-i", SPARK4, "--json", *extra]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_plan_of_four_sparks_has_it_with_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    document = planned(capsys)
    limits = document["startup"]
    assert 3300 <= limits["limit_s"] <= 3900
    assert limits["read_s"] + limits["compile_s"] <= limits["limit_s"]
    for host in document["hosts"].values():
        supervisor = host["desired"]["supervisor"]["files"]["/etc/firstlight/supervisor.json"]["content"]
        (group,) = json.loads(supervisor)["groups"]
        assert group["timing"]["start_timeout"] == limits["limit_s"]
        assert group["timing"]["progress_timeout"] == limits["progress_timeout_s"]
        assert group["needs"]["weights_bytes"] == limits["weights_bytes_per_host"]
    head = next(host for host in document["hosts"].values() if host["is_head"])
    server = next(command for command in head["launch"] if command["name"] == "server")
    assert server["env"]["VLLM_ENGINE_READY_TIMEOUT_S"] == str(limits["limit_s"])
    assert f"--distributed-timeout-seconds={limits['limit_s']}" in server["argv"]


def test_a_person_reads_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-i", SPARK4]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Start the first about 17 min, later ones about 14 min; at most 57 min: 17 min to read 99.9 GB" in shown
    assert "99.9 GB per host at 0.1 GB/s (catalog, hardware gb10)" in shown
    assert "40 min to compile the first time; fails after 20 min without progress" in shown


def test_a_limit_by_hand_is_shown_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    extra = json.dumps({"inference_server_start_timeout": 900})
    assert main(["plan", "-i", SPARK4, "-e", extra]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "at most 15 min, set by inference_server_start_timeout (computed: 57 min)" in shown
    assert "inference_server_start_timeout is 900 s, a start may take" in shown


# --- where it keeps what it compiles ----------------------------------------------------------------------------------


def test_every_engine_of_the_catalog_has_caches_with_a_source() -> None:
    found = load_caches([ROOT / "catalog" / "engines"])
    assert set(found) == {"vllm", "sglang", "tensorrt-llm"}
    for engine, root in (
        ("vllm", "VLLM_CACHE_ROOT"),
        ("sglang", "SGLANG_CACHE_DIR"),
        ("tensorrt-llm", "DG_JIT_CACHE_DIR"),
    ):
        common = {"TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "CUDA_CACHE_PATH"}
        assert {root, *common} <= set(found[engine])
    # Two that one engine has must not lie in each other, where one of them would clear the other.
    for engine, variables in found.items():
        places = sorted(set(variables.values()) - {"sglang/jit"})
        assert not [one for one in places for other in places if other.startswith(f"{one}/")], engine


def test_a_site_has_its_own_first_and_what_is_wrong_is_told(tmp_path: Path) -> None:
    entry = "{variable: A_B, directory: %s, engines: [vllm], holds: x, source: y}"
    for name, directory in (("site", "mine"), ("built-in", "theirs")):
        (tmp_path / name).mkdir()
        text = f"source: s\ndate: '2026-01-01'\ncaches:\n  - {entry % directory}\n"
        (tmp_path / name / "caches.yml").write_text(text)
    assert load_caches([tmp_path / "site", tmp_path / "built-in"]) == {"vllm": {"A_B": "mine"}}
    (tmp_path / "site" / "caches.yml").write_text("[]")
    with pytest.raises(CatalogError, match="is not a mapping"):
        load_caches([tmp_path / "site"])
    (tmp_path / "site" / "caches.yml").write_text("source: s\ndate: d\ncaches: [{variable: A}]\n")
    with pytest.raises(CatalogError, match="lacks caches"):
        load_caches([tmp_path / "site"])


def test_a_plan_keeps_it_by_image_model_layout_and_gpu() -> None:
    found = compile_cache(choices(), {"A": "a"}, f"firstlight/engine:sha256-{'b' * 64}")
    assert found["path"].startswith(f"{CONTAINER_ROOT}/tiny-{'1' * 12}-tp4-pp1-sm121-{'b' * 12}-")
    assert found["variables"] == {"A": "a"}
    venv = compile_cache(choices(runtime="venv"), {"A": "a"}, "c" * 64)
    assert venv["path"].startswith(f"{VENV_ROOT}/tiny-")


@pytest.mark.parametrize(
    ("changes", "variables", "engine"),
    [({"compile_cache": False}, {"A": "a"}, "x"), ({}, {}, "x"), ({}, {"A": "a"}, "")],
)
def test_there_is_none_where_nobody_wants_it_or_nothing_is_kept(
    changes: dict[str, Any], variables: dict[str, str], engine: str
) -> None:
    assert compile_cache(choices(**changes), variables, engine) == {}


def test_all_hosts_of_a_plan_have_the_same_cache_and_the_supervisors_know_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    serving = {"profile": "vllm-ray", "tensor_parallel": 4, "max_model_len": 131072}
    document = planned(
        capsys,
        "-e",
        json.dumps({"firstlight_image": IMAGE, "firstlight_image_build": False, "firstlight_serving": serving}),
    )
    paths = set()
    for host in document["hosts"].values():
        ray = next(command for command in host["launch"] if command["name"] == "ray")
        (mount,) = [word for word in ray["argv"] if "compile-cache" in word]
        paths.add(mount)
        unit = host["desired"]["ray_cluster"]["files"]["/etc/systemd/system/firstlight-ray.service"]["content"]
        words = " ".join(unit.replace("\\\n", " ").split())
        assert "ExecStartPre=/usr/bin/install -d -m 1777 /var/lib/firstlight/compile-cache/" in words
        supervisor = json.loads(host["desired"]["supervisor"]["files"]["/etc/firstlight/supervisor.json"]["content"])
        assert supervisor["groups"][0]["needs"]["compile_cache"] in mount
    assert len(paths) == 1
    assert "-tp4-pp1-sm121-aaaaaaaaaaaa" in next(iter(paths))


def test_it_can_be_switched_off(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    serving = {"tensor_parallel": 4, "max_model_len": 131072, "compile_cache": False}
    document = planned(capsys, "-e", json.dumps({"firstlight_serving": serving}))
    assert "compile-cache" not in json.dumps(document)


RECORD = json.loads((ROOT / "tests/fixtures/performance/h200-vllm-0.26.0.json").read_text(encoding="utf-8"))["models"]


@pytest.mark.parametrize("name", RECORD)
def test_a_first_start_takes_about_what_it_took_on_an_h200(name: str) -> None:
    """Until it was ready, with dummy weights that are read in no time and nothing compiled."""
    shape = read_config(RECORD[name]["config"], name, PlanErrors())
    found = startup(choices("h200-sxm-1", hosts=1, tensor_parallel=1, disk_read_gb_s=10_000), fit(1), shape)
    assert found.first_s == pytest.approx(RECORD[name]["ready_s"], rel=0.3)
    assert found.later_s is not None
    assert found.first_s is not None
    assert found.first_s - found.later_s >= RECORD[name]["compile_s"] * 0.8


def test_a_start_takes_longer_the_more_there_is_to_read_and_without_kept_caches() -> None:
    """70 and 86 seconds with what was compiled kept, 140 and 172 without (docs/serving.md)."""
    shape = read_config(RECORD["llama-8b"]["config"], "llama", PlanErrors())
    kept, lost = (
        startup(choices("h200-sxm-1", hosts=1, tensor_parallel=1, compile_cache=cache), fit(100 * GIB), shape)
        for cache in (True, False)
    )
    assert (kept.later_s, kept.first_s) == (120, 150)  # 54 s of them to read 107 GB at 2 GB/s
    assert (lost.first_s, lost.later_s) == (150, 150)
    unknown = startup(choices(), fit(GIB))
    assert (unknown.first_s, unknown.later_s) == (None, None)
