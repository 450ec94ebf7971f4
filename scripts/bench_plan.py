# SPDX-License-Identifier: Apache-2.0
"""Measure the CPU time of a plan: `bench_plan.py [HOSTS...]`. The first measurement includes loading the catalog."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from pathlib import Path

import yaml

from firstlight.inventory import plan_inventory

ROOT = Path(__file__).resolve().parent.parent
HEADING = "hosts  inventory and plan  document  MB of JSON"


def write(directory: Path, hosts: int) -> None:
    """Write the example's inventory with this many Sparks; Ray Serve has one server per host."""
    variables = yaml.safe_load((ROOT / "inventory" / "spark4" / "group_vars" / "all.yml").read_text(encoding="utf-8"))
    variables["firstlight_model"] = "gpt-oss-120b"
    variables["firstlight_serving"] = {"profile": "ray-serve", "tensor_parallel": 1, "replicas": hosts}
    for number, rail in enumerate(variables["firstlight_fabric"]["rails"]):
        rail["subnet"] = f"10.{64 + number}.0.0/16"
    names = [f"spark-{number:04d}" for number in range(hosts)]
    groups = {"head": {"hosts": {names[0]: None}}, "workers": {"hosts": dict.fromkeys(names[1:])}}
    (directory / "group_vars").mkdir()
    (directory / "group_vars" / "all.yml").write_text(yaml.safe_dump(variables), encoding="utf-8")
    (directory / "hosts.yml").write_text(yaml.safe_dump({"cluster": {"children": groups}}), encoding="utf-8")


def measure(hosts: int) -> tuple[float, float, int]:
    """Return the seconds for inventory and plan, the seconds for the document, and the document's length."""
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory), hosts)
        began = time.process_time()
        plan = plan_inventory([directory])
        planned = time.process_time()
        if plan.errors:  # a refused plan would be shorter
            raise SystemExit(f"the plan of {hosts} hosts is refused: {plan.errors[0]['found']}")
        document = json.dumps(plan.document())
        return planned - began, time.process_time() - planned, len(document)


def main() -> None:
    gc.disable()  # as the command does
    print(HEADING)
    for hosts in [int(one) for one in sys.argv[1:]] or [4, 64, 256, 1000]:
        planned, written, length = measure(hosts)
        print(f"{hosts:5}  {planned:18.2f}  {written:8.2f}  {length / 1e6:10.1f}", flush=True)


if __name__ == "__main__":
    main()
