# SPDX-License-Identifier: Apache-2.0
"""The plan against the real engine: its parser takes what is rendered, and its cache is as large as the plan says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.arguments import check_arguments
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import load_replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema, load_schema

from tests.e2e.support import CHECKOUT, Checkout
from tests.flag_examples import bad_lines, good_lines

ENGINES = [CHECKOUT / "catalog" / "engines"]
SPARK4 = yaml.safe_load((CHECKOUT / "inventory" / "spark4" / "group_vars" / "all.yml").read_text())
PLANS: dict[str, dict[str, Any]] = {
    "inventory/lab": {},
    "inventory/spark4": {},
    "inventory/spark4, on Ray": {"firstlight_serving": {**SPARK4["firstlight_serving"], "profile": "vllm-ray"}},
    "inventory/h100x4": {"firstlight_stack": "h100-vllm-0.32"},
    "inventory/h100x8": {"firstlight_stack": "h100-vllm-0.32"},
}
"""Inventories whose stack pins the engine that the lab's image holds, and what is set beside them."""

FROM_OLD_GUIDES = [
    ["m", "--scheduler-policy", "continuous"],
    ["m", "--enable-sequence-parallelism"],
    ["m", "--swap-space", "4"],
    ["m", "--enable-reasoning"],
    ["m", "--num-scheduler-steps", "8"],
    ["m", "--scheduling-policy", "continuous"],
    ["m", "--enable-radixattention"],
]


def plan(cluster: Checkout, inventory: str, extra: dict[str, Any]) -> dict[str, Any]:
    more = f"-e {shlex.quote(json.dumps(extra))}" if extra else ""
    done = cluster.run(f".venv/bin/firstlight plan -i {inventory.split(',', maxsplit=1)[0]} {more} --json 2>/dev/null")
    assert done.status == 0, done.output
    document: dict[str, Any] = json.loads(done.output)
    return document


def rendered(cluster: Checkout) -> list[list[str]]:
    """What every host of every plan is to run, once each."""
    lines = [
        command["engine_argv"]
        for inventory, extra in PLANS.items()
        for host in plan(cluster, inventory, extra)["hosts"].values()
        for command in host["launch"]
        if command["name"] == "server"
    ]
    return [list(line) for line in dict.fromkeys(map(tuple, lines))]


def real_parser(cluster: Checkout, lines: list[list[str]], tmp_path: Path) -> list[dict[str, Any]]:
    """What the parser of the engine in the lab's image says of each."""
    (tmp_path / "lines.json").write_text(json.dumps(lines))
    inside = ".venv/bin/firstlight lab ssh spark0 docker exec -i firstlight-ray"
    copied = cluster.run(f"{inside} tee /tmp/agreement.py < tests/e2e/cluster/parser_agreement.py > /dev/null")
    assert copied.status == 0, copied.output
    asked = cluster.run(f"{inside} python3 /tmp/agreement.py < {tmp_path}/lines.json", timeout=300)
    assert asked.status == 0, asked.output[-3000:]
    answers: list[dict[str, Any]] = json.loads(asked.output.strip().splitlines()[-1])
    assert len(answers) == len(lines)
    return answers


def known(schema: EngineSchema, line: list[str]) -> bool:
    return all(finding["problem"] is None for finding in check_arguments(schema, line, load_replaced(ENGINES)))


@pytest.mark.extended  # an engine reads some hundred command lines; its schema changes only with its version
def test_the_schema_and_the_engines_own_parser_agree(cluster: Checkout, tmp_path: Path) -> None:
    schema = load_schema(ENGINES, "vllm", "0.32.0")
    assert schema is not None
    planned = rendered(cluster)
    assert len(planned) >= 8
    good = [*planned, *good_lines(schema)]
    bad = [*FROM_OLD_GUIDES, *bad_lines(schema)]
    answers = real_parser(cluster, [*good, *bad], tmp_path)
    for line, answer in zip(good[: len(planned)], answers, strict=False):
        assert answer["accepted"], (line, answer["message"])
    for line, answer in zip(good, answers, strict=False):
        assert answer["parsed"], (line, answer["message"])
        assert known(schema, line), line
    for line, answer in zip(bad, answers[len(good) :], strict=True):
        assert not answer["parsed"], line
        assert not known(schema, line), line


def test_the_cache_holds_as_many_tokens_as_the_plan_says(cluster: Checkout, results: dict[str, Any]) -> None:
    predicted = plan(cluster, "inventory/lab", {})["fit"]["kv_tokens"]
    journal = cluster.node("spark0", "journalctl -u firstlight-server -o cat --no-pager").output
    reported = [int(one.replace(",", "")) for one in re.findall(r"KV cache size: ([\d,]+) tokens", journal)]
    assert reported, journal[-3000:]
    results["KV tokens, predicted / reported"] = round(predicted / reported[-1], 4)
    assert abs(predicted - reported[-1]) <= 0.02 * reported[-1]
