# SPDX-License-Identifier: Apache-2.0
"""Checks of the Ray cluster and the server on it: every node contributes its GPUs, and requests are answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...parsers.reading import Reading, of_kind, quoted
from ..check import Check, could_not_check, failed, passed
from ..expected import Expected

KV_CACHE_FULL = 0.95
"""The share of blocks in use above which new requests wait or running ones are preempted."""
PREEMPTED_SHARE = 0.01
"""The share of finished requests above which preemptions count; fewer are the peaks of a busy day."""

_RAY_AGAIN = "capture the whole output of `ray status` again"
_METRICS_AGAIN = "capture the whole page of metrics again"


def check_serving(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Ray's nodes, gpus, failures, pending and demands; vLLM's answer, queue, kv_cache, preemptions and finished."""
    checks: list[Check] = []
    for reading in of_kind(readings, "ray-status"):
        checks += _ray(reading, expected)
    for reading in of_kind(readings, "vllm-metrics"):
        checks += _vllm(reading)
    return checks


def _count(number: float, thing: str) -> str:
    return f"{number:g} {thing}{'' if number == 1 else 's'}"


def _doubt(reading: Reading, otherwise: str) -> str:
    return "; ".join(reading.problems) or otherwise


def _ray(reading: Reading, expected: Expected) -> Iterator[Check]:
    data = reading.data
    if data.get("trouble") and "nodes" not in data:
        remedy = "start Ray on this host and check its log (`journalctl -u firstlight-ray`)"
        yield failed("ray.nodes", reading, "a Ray cluster that answers", quoted(data["trouble"][-1]), remedy)
        return
    if not data.get("nodes") and "active" not in data:
        why = "Ray is still starting" if data.get("starting") else _doubt(reading, "no list of nodes")
        yield could_not_check("ray.nodes", reading, "a list of active nodes", why, _RAY_AGAIN)
        return
    yield _ray_nodes(reading)
    yield _ray_gpus(reading, expected)
    yield _listed(
        reading,
        "ray.failures",
        "failures",
        "no recent failures",
        "check the log of the named node, and that it has the same image and token",
    )
    yield _listed(reading, "ray.pending", "pending", "no pending nodes", "wait for them, or check their logs")
    yield _listed(
        reading,
        "ray.demands",
        "demands",
        "nothing waits for resources",
        "let the missing nodes join, or ask for no more than the cluster has (tensor parallel x pipeline parallel)",
    )


def _ray_nodes(reading: Reading) -> Check:
    nodes, troubled = reading.data["nodes"], [one for one in reading.problems if one.startswith(("active", "idle"))]
    if troubled:
        return could_not_check("ray.nodes", reading, "active nodes", "; ".join(troubled), _RAY_AGAIN)
    if nodes == 0:
        remedy = "start Ray on the head, then on the workers"
        return failed("ray.nodes", reading, "active nodes", "none is active", remedy)
    if "resources" not in reading.data and "failures" not in reading.data and "pending" not in reading.data:
        return could_not_check(
            "ray.nodes", reading, "a complete list of nodes", f"{_count(nodes, 'node')}, then the text ends", _RAY_AGAIN
        )
    return passed("ray.nodes", reading, "active nodes", f"{_count(nodes, 'node')} active")


def _ray_gpus(reading: Reading, expected: Expected) -> Check:
    """Each node must have contributed the GPUs of the profile. This output does not show which node lacks some."""
    nodes = reading.data["nodes"]
    wanted = f"{_count(expected.gpus, 'GPU')} per node"
    gpus = (reading.data.get("resources") or {}).get("GPU")
    if gpus is None:
        complete = "object_store_memory" in (reading.data.get("resources") or {})
        if complete and not reading.problems:
            remedy = "start Ray in a container that sees the GPUs (`--gpus all`), and with --num-gpus"
            return failed("ray.gpus", reading, wanted, "no node has a GPU", remedy)
        return could_not_check("ray.gpus", reading, wanted, _doubt(reading, "the resources are not shown"), _RAY_AGAIN)
    total = gpus["total"]
    observed = f"{_count(total, 'GPU')} on {_count(nodes, 'node')}"
    if nodes and total == nodes * expected.gpus:
        return passed("ray.gpus", reading, wanted, observed)
    if nodes > 1 and total == (nodes - 1) * expected.gpus:
        why = f"{observed}: one node has none, which is correct only for a head without GPUs"
        return could_not_check("ray.gpus", reading, wanted, why, "check each node's GPUs with `ray status -v`")
    remedy = "check each node's GPUs with `ray status -v`, then at `nvidia-smi -L` of the one that lacks some"
    return failed("ray.gpus", reading, wanted, observed, remedy)


def _listed(reading: Reading, name: str, section: str, expected: str, remedy: str) -> Check:
    listed = reading.data.get(section)
    if listed is None:
        return could_not_check(name, reading, expected, f"the text has no list of {section}", _RAY_AGAIN)
    if listed:
        more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
        return failed(name, reading, expected, "; ".join(quoted(line) for line in listed[:3]) + more, remedy)
    return passed(name, reading, expected, "none")


def _vllm(reading: Reading) -> Iterator[Check]:
    data = reading.data
    if data.get("trouble"):
        remedy = "start the server and check its log (`journalctl -u firstlight-server`)"
        yield failed("vllm.answer", reading, "a page of metrics", quoted(data["trouble"][0]), remedy)
        return
    if not reading.understood:
        why = _doubt(reading, "no vLLM metric")
        yield could_not_check("vllm.answer", reading, "vLLM's page of metrics", why, _METRICS_AGAIN)
        return
    yield _queue(reading)
    yield _kv_cache(reading)
    yield _preemptions(reading)
    yield _finished(reading)
    if data.get("corrupted"):
        yield failed(
            "vllm.corrupted",
            reading,
            "no request with NaN in its results",
            _count(data["corrupted"], "request"),
            "drain the host and check its GPUs: this is silent corruption, or a broken kernel",
        )


def _missing(name: str, reading: Reading, expected: str, *metrics: str) -> Check:
    mentioned = [one for one in reading.problems if any(metric in one for metric in metrics)]
    why = "; ".join(mentioned) or _doubt(reading, f"the page has no {metrics[0]}")
    return could_not_check(name, reading, expected, why, _METRICS_AGAIN)


def _queue(reading: Reading) -> Check:
    data: dict[str, Any] = reading.data
    expected = "no more requests wait than run"
    if "waiting" not in data or "running" not in data:
        return _missing("vllm.queue", reading, expected, "num_requests_waiting", "num_requests_running")
    observed = f"{data['running']} running, {data['waiting']} waiting"
    if data["waiting"] > data["running"]:
        remedy = "send fewer requests, or add servers; if nothing is running, check the server's log"
        return failed("vllm.queue", reading, expected, observed, remedy)
    return passed("vllm.queue", reading, expected, observed)


def _kv_cache(reading: Reading) -> Check:
    expected = f"KV cache below {KV_CACHE_FULL:.0%}"
    usage = reading.data.get("kv_cache_usage")
    if usage is None or not 0 <= usage <= 1:
        return _missing("vllm.kv_cache", reading, expected, "cache_usage_perc")
    if usage >= KV_CACHE_FULL:
        remedy = "lower max_model_len or the number of sequences, use an FP8 KV cache, or send fewer requests"
        return failed("vllm.kv_cache", reading, expected, f"{usage:.1%} in use", remedy)
    return passed("vllm.kv_cache", reading, expected, f"{usage:.1%} in use")


def _preemptions(reading: Reading) -> Check:
    expected = f"preemptions below {PREEMPTED_SHARE:.0%} of the requests"
    preempted = reading.data.get("preemptions")
    if preempted is None:
        return _missing("vllm.preemptions", reading, expected, "num_preemptions")
    finished = sum((reading.data.get("finished") or {}).values())
    observed = f"{_count(preempted, 'preemption')}, {_count(finished, 'request')} finished"
    if preempted > PREEMPTED_SHARE * finished:
        remedy = "the KV cache is too small for this load: lower max_num_seqs or max_model_len, or use an FP8 KV cache"
        return failed("vllm.preemptions", reading, expected, observed, remedy)
    return passed("vllm.preemptions", reading, expected, observed)


def _finished(reading: Reading) -> Check:
    """Check that requests were answered: a server that has not answered any yet is not known to work."""
    expected = "requests finished, none with an error"
    finished = reading.data.get("finished")
    if finished is None:
        return _missing("vllm.finished", reading, expected, "request_success")
    observed = ", ".join(f"{count} {reason}" for reason, count in sorted(finished.items()) if count) or "none yet"
    if finished.get("error"):
        remedy = "look for the errors in the server's log (`journalctl -u firstlight-server`)"
        return failed("vllm.finished", reading, expected, observed, remedy)
    if not any(finished.get(reason) for reason in ("stop", "length", "unknown")):
        remedy = "send a request, then capture the metrics again"
        return could_not_check("vllm.finished", reading, expected, f"finished: {observed}", remedy)
    return passed("vllm.finished", reading, expected, observed)
