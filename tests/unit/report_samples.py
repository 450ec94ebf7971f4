# SPDX-License-Identifier: Apache-2.0
"""Reports of made-up clusters: our own golden plans, hosts on which they hold, and figures that nobody measured."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.runs import valid_for
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import make_record, records
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.document import Inputs, make_document

from tests.unit.ideal import ideal

ROOT = Path(__file__).resolve().parents[2]
DRIVER = "580.1"
MADE = "2026-11-18T09:00:00+00:00"
RUNS = {"load": "loaded", "active": "active", "sub": "running", "result": "success"}
SERIAL, UUID, MAC = "1423725010001", "GPU-1c4f2274-9978-7e93-73e8-351780010001", "4c:bb:47:2f:91:11"


@functools.cache
def _golden(name: str) -> str:
    return (ROOT / "tests/golden/plan" / f"{name}.json").read_text(encoding="utf-8")


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_golden(name))
    return found


def encoded(document: Any) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


def observation(plan: Mapping[str, Any], host: str) -> dict[str, Any]:
    """A host on which its plan holds, as `observe` tells it."""
    seen: dict[str, Any] = {}
    for desired in plan["hosts"][host]["desired"].values():
        for kind, value in ideal(desired or {}, {plan["cluster"]["head"]: {}}).items():
            seen[kind] = {**seen.get(kind, {}), **value} if isinstance(value, dict) else value
    seen["facts"] |= {
        "distribution": "ubuntu",
        "version": "24.04",
        "architecture": "aarch64",
        "memory_bytes": 128_523_563_008,
    }
    seen["driver"]["kernel"] = "6.17.0-1014-nvidia"
    seen["driver"]["loaded"] = seen["driver"]["loaded"] or DRIVER
    seen["driver"]["installed"] = seen["driver"]["loaded"]
    expected = plan["hosts"][host]["expected"]
    seen["gpus"] = {
        "count": expected["gpus"],
        "names": [expected["gpu_name"]] * expected["gpus"],
        "driver": seen["driver"]["loaded"],
    }
    for port in (seen.get("fabric") or {}).values():
        port |= {"mac": MAC, "mtu": 9000, "speed_mbit": 200_000, "carrier": True}
    if expected["gpus"] > 1:
        names = [f"GPU{number}" for number in range(expected["gpus"])]
        cells = {one: {other: "NV18" for other in names if other != one} for one in names}
        seen["gpu_health"]["topology"] = {"gpus": names, "nics": [], "cells": cells, "complete": True}
    seen["firmware"] = {
        path: {**one, "now": {"bios": "5.36 (2026-06-01)"}} for path, one in (seen.get("firmware") or {}).items()
    }
    return seen


def paths(plan: Mapping[str, Any], host: str) -> list[dict[str, Any]]:
    """What a connectivity test of the fabric says of every path from this host."""
    found = []
    for peer in plan["hosts"]:
        for number, entry in enumerate(plan["hosts"][host]["fabric"]):
            if peer == host:
                continue
            said = "3 of 3 answered, 0.052 ms"
            packets = "9000-byte packets arrive unfragmented"
            found.append(make_record(f"fabric.ping.{entry['port']}.{peer}", host, packets, said, "pass"))
            found.append(
                make_record(
                    f"fabric.rdma.{entry['port']}.{peer}", host, "at least 85 Gb/s", f"{97.3 - number} Gb/s", "pass"
                )
            )
    return found


def uuids(number: int, gpus: int = 1) -> list[str]:
    """Those of the GPUs of a host; the first one is UUID."""
    return [f"{UUID[:-7]}{number:03}{index:04}" for index in range(1, gpus + 1)]


def burn_in(number: int, gpus: int = 1, driver: str = DRIVER) -> dict[str, Any]:
    """The record of a burn-in, with the figures of a real one."""
    measured = json.loads((ROOT / "tests/fixtures/gpu-burn-in/h200.json").read_text(encoding="utf-8"))
    sums = {"bus_gb_s": 430.0, "right": True}
    measured["gpus"] = [
        {**measured["gpus"][0], "index": index, "uuid": f"{number:08x}{index:08x}", "all_reduce": sums}
        for index in range(gpus)
    ]
    return {
        "valid_for": valid_for(driver, uuids(number, gpus), "", "cuda"),
        "date": "2026-11-17T20:00:00+00:00",
        "measured": measured,
        "checks": [],
    }


def serving(plan: Mapping[str, Any], host: str, phase: str = "serving") -> dict[str, Any]:
    head, hosts = plan["cluster"]["head"], list(plan["hosts"])
    group = {
        "phase": phase,
        "why": "",
        "since": "2026-11-18T07:00:00+00:00",
        "epoch": "e1",
        "attempts": 0,
        "next_start": None,
        "forgotten_at": None,
        "missing": {},
        "nodes": {name: {"heard_seconds": 0.2, "units": {}, "ready": True} for name in hosts},
        "probe": {"answered_at": MADE, "seconds": 0.4, "words": "answered", "model": "model"},
        "load": {},
        "started": {"seconds": 771.0, "bytes_read": 99_862_382_080, "read_seconds": 512.0},
        "history": [{"at": "2026-11-18T07:00:00+00:00", "event": "serving"}],
    }
    return {
        "serving": {
            "time": MADE,
            "config": {
                "node": host,
                "head": head,
                "groups": {
                    "server": {"head": head, "nodes": hosts, "url": "http://127.0.0.1:290", "model": "model",
                               "tensor_parallel": len(hosts)}
                },
            },
            "state": {"written_at": MADE, "problem": "", "groups": {"server": group}},
            "supervisor": "active (running)",
            "supervisor_active": "active",
            "units": {"firstlight-supervisor.service": dict(RUNS)},
            "planned_units": [],
            "memory": {"kind": "unified", "machine": {"total": 128_000_000_000, "free": 18_000_000_000}, "gpus": []},
            "drained": None,
            "repin": False,
            "problems": {},
        }
    }  # fmt: skip


def part(plan: Mapping[str, Any], host: str, number: int) -> dict[str, Any]:
    """What playbooks/report.yml hands in of one host."""
    seen = observation(plan, host)
    desired = plan["hosts"][host]["desired"]
    peers = {plan["cluster"]["head"]: observation(plan, plan["cluster"]["head"])}
    port = plan["hosts"][host]["fabric"][0]["port"] if plan["hosts"][host]["fabric"] else "eth0"
    return {
        "observation": seen,
        "problem": "",
        "records": [*records(host, desired, seen, peers, stack=plan["cluster"]["stack"]), *paths(plan, host)],
        "serving": serving(plan, host),
        "gpus": {
            "smi-xml": {
                "gpus": [
                    {"index": index, "uuid": uuid, "clocks.current.sm": 2411.0, "clocks.max.sm": 3003.0,
                     "power.draw": 12.6, "power.limit": None, "temperature.gpu": 44.0}
                    for index, uuid in enumerate(uuids(number, plan["hosts"][host]["expected"]["gpus"]))
                ]
            }
        },
        "burn_in": encoded(burn_in(number, plan["hosts"][host]["expected"]["gpus"], seen["driver"]["loaded"])),
        "history": {
            "boot": "2026-11-17T18:00:00Z",
            "packages": {
                "docker.io": {"at": "2026-11-17T17:00:00Z", "before": None, "after": "28.2.2", "action": "install",
                              "command": "apt-get install docker.io"}
            },
        },
        "repins": [encoded({"previous_stack": "a", "stack": "b", "entries": [{"at": MADE, "state": "uncordoned"}]})],
        "links": json.dumps([{"ifname": port, "address": MAC, "stats64": {"rx": {"dropped": 3, "errors": 0}}}]),
        "serial": SERIAL,
    }  # fmt: skip


def summary(streams: int) -> dict[str, Any]:
    rate = 62.0 * streams**0.72
    return {
        "runs": 3,
        "requests": 10 * streams,
        "completed": 10 * streams,
        "failed": 0,
        "output_tokens_per_s": rate,
        "requests_per_s": rate / 256,
        "ttft_ms": {"50": 180 + 6.0 * streams, "95": 240 + 9.0 * streams, "99": 280 + 11.0 * streams},
        "tpot_ms": {"50": 1000 * streams / rate, "95": 1100 * streams / rate},
        "goodput_requests_per_s": rate / 256 * (0.99 if streams < 64 else 0.4),
        "prefix_hit_rate": 0.01,
        "client_load": 0.2,
        "spread": {"output_tokens_per_s": 0.04, "ttft_ms": 0.08, "tpot_ms": 0.04},
    }


def bench(plan_sha256: str) -> dict[str, Any]:
    """A benchmark of two workloads."""
    points = []
    for streams in (1, 16, 64):
        found = summary(streams)
        runs = [
            {"problem": None, "requests": 10 * streams, "failed": 0, "failures": {}, **found,
             "output_tokens_per_s": found["output_tokens_per_s"] * share,
             "ttft_ms": {"50": found["ttft_ms"]["50"] * share}, "tpot_ms": {"50": found["tpot_ms"]["50"] / share}}
            for share in (0.98, 1.0, 1.02)
        ]  # fmt: skip
        points.append({"streams": streams, "rate": None, "runs": runs, "summary": found})
    lost = {"problem": "the server did not answer", "requests": 64, "failed": 64, "failures": {"HTTP 502": 64}}
    return {
        "format": 1,
        "cluster": "mine",
        "run": "20261118T083000Z-1f3a",
        "started": "2026-11-18T08:30:00+00:00",
        "finished": "2026-11-18T08:52:00+00:00",
        "configuration": {"plan_sha256": plan_sha256, "gpus": 4, "model": "m", "argv": ["vllm", "serve"]},
        "client": {"host": "spark-delta", "through": "endpoint", "on_head": False},
        "workloads": [
            {"name": "chat", "input": 1024, "output": 256, "prompts": "random", "targets": {}, "points": points},
            {"name": "latency", "input": 1024, "output": 256, "prompts": "random", "targets": {},
             "points": [{"streams": 1, "rate": None, "runs": [], "summary": summary(1)},
                        {"streams": None, "rate": 2.5, "runs": [lost], "summary": None}]},
        ],
    }  # fmt: skip


def bench_verdict(verdict: str = "pass") -> dict[str, Any]:
    line = {
        "workload": "chat",
        "streams": 16,
        "rate": None,
        "metric": "output_tokens_per_s",
        "measured": 456.0,
        "low": 380.0,
        "high": 600.0,
        "of": "plan",
        "source": "the plan's estimate",
        "verdict": verdict,
        "note": "",
    }
    looks = (
        ["spark-beta: enp1s0f1np1 at 100 of 200 Gb/s (half its rate): look at the switch"] if verdict == "slow" else []
    )
    return {"verdict": verdict, "lines": [line], "look_at": looks}


TUNE: dict[str, Any] = {
    "format": 1,
    "run": "20261118T100000Z-aaaa",
    "ladder": "serving",
    "started": MADE,
    "finished": MADE,
    "workload": {"name": "chat"},
    "baseline": summary(16),
    "rungs": [
        {"name": "prefix caching", "stage": "scheduler", "change": {"firstlight_serving.prefix_caching": True},
         "decision": "kept", "reason": "12 % faster, runs differ by 4 %", "summary": summary(20),
         "quality": {"status": "same"}},
        {"name": "FP8 cache", "stage": "precision", "change": {"firstlight_serving.kv_cache_dtype": "fp8"},
         "decision": "refused", "reason": "answers are worse", "summary": None, "quality": {"status": "worse"}},
    ],
    "result": {"change": {}, "diff": "+ prefix_caching: true", "restore": "firstlight tune --restore"},
}  # fmt: skip
LAYOUTS: dict[str, Any] = {
    "format": 1,
    "run": "20261118T110000Z-bbbb",
    "started": MADE,
    "finished": MADE,
    "workload": {"name": "recipe-1024-256", "streams": 32},
    "layouts": [
        {"tensor_parallel": 2, "pipeline_parallel": 1, "gpus": 2, "summary": summary(16), "problem": None,
         "communication": {"share": 0.12, "source": "estimate"}},
        {"tensor_parallel": 4, "pipeline_parallel": 1, "gpus": 4, "summary": summary(24), "problem": None,
         "communication": {"share": 0.2, "source": "estimate"}},
        {"tensor_parallel": 1, "pipeline_parallel": 4, "gpus": 4, "summary": None, "problem": "it does not fit",
         "communication": {"share": None, "source": None}},
    ],
}  # fmt: skip
QUALITY: dict[str, Any] = {
    "format": 1,
    "asked": MADE,
    "configuration": {"plan_sha256": "0" * 64},
    "reference": {"run": "20261110T000000Z-cccc", "asked": "2026-11-10T00:00:00+00:00", "configuration": {}},
    "status": "within_limits",
    "prompts": 20,
    "exact_match": 0.95,
    "token_agreement": 0.993,
    "bleu": 99.6,
    "rouge_l": 0.998,
    "limits": {},
    "reasons": [],
    "worst": [],
}


def inputs(name: str = "spark4", **changed: Any) -> Inputs:
    """A cluster on which everything is right, and that was measured."""
    plan = golden(name)
    hardware = yaml.safe_load(
        (ROOT / "catalog/hardware" / f"{plan['cluster']['hardware']}.yml").read_text(encoding="utf-8")
    )
    given: dict[str, Any] = {
        "cluster": "mine",
        "run": "20261118T090000Z-0001",
        "made": MADE,
        "version": "0.1.0",
        "inventory": ["inventory/mine"],
        "plan": plan,
        "known_plans": ["0" * 64],
        "hardware": hardware,
        "gpu_verify": {host: {"gpu_verify_power": {}} for host in plan["hosts"]},
        "gathered": {
            "at": MADE,
            "diagnoses": [],
            "bandwidth": True,
            "hosts": {host: part(plan, host, number) for number, host in enumerate(plan["hosts"], 1)},
        },
        "bench": bench("0" * 64),
        "bench_verdict": bench_verdict(),
        "tune": TUNE,
        "layouts": LAYOUTS,
        "quality": QUALITY,
    }
    return Inputs(**{**given, **changed})


def right(name: str = "spark4") -> dict[str, Any]:
    return make_document(inputs(name))


def sick() -> dict[str, Any]:
    """One node whose GPU has an Xid and whose kernel is another, and one that does not answer."""
    given = inputs()
    hosts = given.gathered["hosts"]
    ill, silent = list(hosts)[2], list(hosts)[3]
    hosts[ill]["observation"]["driver"]["kernel"] = "6.11.0-1016-nvidia"
    hosts[ill]["records"] += [
        make_record("kernel.xid", ill, "no Xid since the boot", "Xid 79: GPU has fallen off the bus", "fail",
                    "take the host out of service and reboot it")
    ]  # fmt: skip
    hosts[silent] = {
        "observation": {},
        "problem": "unreachable",
        "records": [make_record("host.answer", silent, "an answer", "none", "could_not_check", "make it answer")],
    }
    return make_document(given)
