# SPDX-License-Identifier: Apache-2.0
"""`firstlight tune` and `bench --layouts` on nodes that serve: kept, refused, killed, resumed and undone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.serving.lab import HEAD, SERVER, SINGLE, Serving
from tests.e2e.serving.places import take_place
from tests.e2e.serving.processes import kill_all_of, wait_for
from tests.e2e.serving.test_bench import BENCH, NAME, SHORT
from tests.e2e.serving.test_quality import QUALITY

# As many answers at a time as there are streams, or one after the other: on any machine the first is much faster.
LOAD = {**SHORT, "name": "load", "output": 12, "streams": [8], "requests_per_stream": 3}
LADDER: dict[str, Any] = {
    "name": "two-rungs",
    "source": "this test",
    "date": "2026-11-18",
    "workload": "load",
    "baseline": {"flags.--max-num-seqs": 1},
    "stages": [
        {
            "name": "scheduler",
            "rungs": [
                {"name": "too-many-heads", "change": {"tensor_parallel": 3}},
                {"name": "more", "change": {"flags.--max-num-seqs": 8}},
                {"name": "less", "change": {"flags.--max-num-seqs": 1}},
            ],
        }
    ],
}


@pytest.fixture
def cluster(rack: Serving) -> Serving:
    """Four nodes that serve behind an endpoint."""
    take_place(rack, BENCH)
    return rack


def words(serving: Serving, directory: Path, command: str, *more: str) -> list[str]:
    """A command, with a site's catalog that has the workload and the ladder of these tests."""
    (directory / "ladders").mkdir(exist_ok=True)
    (directory / "workloads.yml").write_text(yaml.safe_dump([LOAD]))
    (directory / "quality.yml").write_text(yaml.safe_dump(QUALITY))
    (directory / "ladders" / "two-rungs.yml").write_text(yaml.safe_dump(LADDER))
    catalogs = {"firstlight_catalog": [str(directory), str(serving.lab.directory / "catalog")]}
    return ["firstlight", command, "-i", serving.profile.inventory, "-e", json.dumps(catalogs), *more]


def journal(serving: Serving, kind: str = "tune", name: str = NAME) -> dict[str, Any]:
    """The newest run; empty before there is one."""
    place = Path(serving.env["XDG_STATE_HOME"]) / "firstlight" / name / kind
    found: list[dict[str, Any]] = [json.loads(path.read_text()) for path in sorted(place.glob("*.json"))]
    return found[-1] if found else {}


def at_a_time(serving: Serving) -> str:
    """How many requests at a time the server takes that runs; empty where none does."""
    shown = serving.inside(HEAD, f"docker inspect --format '{{{{json .Args}}}}' {SERVER} 2>/dev/null || true")
    argv = json.loads(shown.strip() or "[]")
    found = [one.partition("=")[2] or argv[at + 1] for at, one in enumerate(argv) if one.startswith("--max-num-seqs")]
    return str(found[-1]) if found else ""


def test_killed_it_resumes_keeps_the_better_rung_and_can_be_undone(cluster: Serving, tmp_path: Path) -> None:
    assert at_a_time(cluster) == "4"
    asked = words(cluster, tmp_path, "tune", "--ladder", "two-rungs", "--repeats", "2")
    log = tmp_path / "log"
    with cluster.started(*asked, log=log) as process:
        wait_for(
            lambda: journal(cluster).get("journal", {}).get("planned") == 1 and at_a_time(cluster) == "8",
            900,
            "the second rung",
            log.read_text,
        )
        kill_all_of(process)
    cut = journal(cluster)
    assert cut["finished"] is None
    assert cut["rungs"][0]["decision"] == "illegal"
    refused = cluster.command(*asked, fails=True)
    assert "--resume" in refused.output
    run = cluster.command(*words(cluster, tmp_path, "tune", "--resume"))
    found = journal(cluster)
    assert (found["run"], found["baseline"]) == (cut["run"], cut["baseline"])
    assert [rung["decision"] for rung in found["rungs"]] == ["illegal", "kept", "refused"], run.output[-3000:]
    assert found["rungs"][1]["quality"]["status"] in ("same", "within_limits")
    assert found["result"]["change"] == {"flags.--max-num-seqs": 8}
    assert "+  - --max-num-seqs=8" in run.output
    assert at_a_time(cluster) == "8"
    cluster.command(*words(cluster, tmp_path, "tune", "--restore"))
    assert at_a_time(cluster) == "4"
    assert journal(cluster)["journal"]["state"] == "former"
    cluster.assert_serves()


def test_layouts_are_measured_and_the_former_one_serves_again(rack: Serving, tmp_path: Path) -> None:
    # On the GPUs of one host: four Sparks have a pipeline to compare, at whose first request vLLM's CPU build ends.
    take_place(rack, SINGLE)
    asked = words(rack, tmp_path, "bench", "--layouts", "2,3,4", "--workload", "load", "--repeats", "1")
    run = rack.command(*asked, "--plot", str(tmp_path / "scaling.svg"), fails=True)
    assert run.status == 3, run.output[-3000:]
    found = journal(rack, "layouts", "single")
    assert found["finished"]
    two, three, four = found["layouts"]
    assert all(one["summary"]["output_tokens_per_s"] > 0 for one in (two, four))
    assert three["summary"] is None
    assert "3" in three["problem"]
    assert (four["tensor_parallel"], four["problem"]) == (4, None)
    assert (tmp_path / "scaling.svg").read_text().lstrip().startswith("<svg")
    rack.assert_serves()
    page = tmp_path / "report.html"
    rack.command("firstlight", "report", "-i", rack.profile.inventory, "-o", str(page), fails=None)
    # The same verdict again, whatever it is for a machine without a GPU.
    told = rack.command("firstlight", "report", "--from", str(page), "-o", f"{page}.again", "--json", fails=None).output
    document = json.loads(told[told.index("{") :])
    assert document["layouts"]["run"] == found["run"]
    assert document["bench"] is None or document["bench"]["workloads"]
    assert rack.endpoint.key not in page.read_text()
