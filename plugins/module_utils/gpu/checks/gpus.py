# SPDX-License-Identifier: Apache-2.0
"""Checks of a host's GPUs from every form of nvidia-smi output: their count, kind, responses and condition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...parsers.fields import label
from ...parsers.reading import Reading, of_kind
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import Expected
from .gpu_evaluation import Gpu, evaluate_name
from .gpu_rules import RULES, Rule
from .gpu_trouble import remedy_for, wants_reset

_KINDS = ("query-gpu", "smi-q", "smi-xml", "smi-table", "smi-list", "proc-version")
_NAMED = 4
"""GPUs or lines that a message lists before it only counts the rest."""
_FIRMWARE = ("vbios_version", "inforom.img")
_ENGINE = re.compile(r"vllm|sglang|trtllm|tritonserver|\bray::|(?:^|[/.])python[\d.]*(?:$|\s)", re.IGNORECASE)
"""Names under which the processes of an inference engine appear."""
_MARKS = ("uuid", "bus", "index")
_MASKED = re.compile(r"GPU-(?:[0xX*#.-]+|[<\[(]?(?:masked|redacted|hidden|removed|uuid)[>\])]?)", re.IGNORECASE)
"""A UUID that was masked in a capture: it does not distinguish GPUs."""


def check_gpus(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Every check that these readings of one host can decide; a source is only asked for what it should report."""
    return [check for reading in of_kind(readings, *_KINDS) for check in _of(reading, expected)]


def _of(reading: Reading, expected: Expected) -> Iterator[Check]:
    data = reading.data
    gpus: list[Gpu] = list(data.get("gpus") or ())
    if reading.kind == "proc-version" and not gpus:
        return  # the versions are the driver's checks
    if reading.kind == "query-gpu" and not gpus and data.get("processes") is not None and not data.get("trouble"):
        yield from _processes(reading)  # a query of processes, which lists no GPUs
        return
    yield from _answer(reading, gpus, expected)
    if not reading.understood:
        return
    yield from _count(reading, gpus, expected)
    if gpus:
        for rule in RULES:
            yield from _rule(rule, reading, gpus, expected)
        yield from _firmware(reading, gpus, expected)
    elif any(wants_reset(line) for line in data.get("trouble") or ()):
        yield _reset(reading)
    if reading.kind == "smi-list" and data.get("mig"):
        yield _mig_devices(reading)
    yield from _processes(reading)


# --- how many, and whether all of them are told of ------------------------------------------------------------------


def _distinct(gpus: Sequence[Gpu]) -> int:
    """Count GPUs, not rows: a query that repeats itself lists each one again.

    The field that distinguishes the most of them counts: captures are often shared with all UUIDs made the same.
    """
    told = [{str(gpu[name]) for gpu in gpus} for name in _MARKS if all(gpu.get(name) is not None for gpu in gpus)]
    apart = [len(values) for values in told if not all(map(_MASKED.fullmatch, values))]
    return max(apart) if apart else len(gpus)


def _shortfall(reading: Reading, gpus: Sequence[Gpu], expected: Expected) -> str:
    """Why a finding about these GPUs may not hold for the whole host; empty if all GPUs are shown."""
    shown, listed = _distinct(gpus), reading.data.get("listed")
    if listed is not None and shown < listed:
        return f"only {shown} of {listed} GPUs are shown"
    if listed is None and shown < expected.gpus and not (reading.kind == "smi-table" and reading.data.get("complete")):
        return f"only {shown} of {expected.gpus} GPUs are shown"
    return ""


def _count(reading: Reading, gpus: Sequence[Gpu], expected: Expected) -> Iterator[Check]:
    wanted = _counted(expected.gpus, "GPU")
    shown, listed = _distinct(gpus), reading.data.get("listed")
    remedy = (
        "compare with `lspci -d 10de:` and look for Xid in `dmesg`: a GPU that the bus has and the driver lacks "
        "needs a cold boot; if there never were more, use this machine's profile"
    )
    attached = shown if listed is None else listed
    trouble = " ".join(reading.data.get("trouble") or ())
    if "no devices were found" in trouble.lower():
        yield failed("gpu.count", reading, wanted, "no GPU", remedy)
    elif listed is None and not gpus:
        first = remedy_for(reading.data["trouble"]) if reading.data.get("trouble") else ""
        yield could_not_check("gpu.count", reading, wanted, _why(reading, "no GPU is listed"), first)
    elif listed is None and shown < expected.gpus and _may_be_cut(reading, expected.gpus - shown):
        yield could_not_check("gpu.count", reading, wanted, _why(reading, f"only {_counted(shown, 'GPU')} shown"))
    elif listed is None and reading.data.get("torn"):
        # Two pieces of one row look like two GPUs.
        yield could_not_check("gpu.count", reading, wanted, _why(reading, "some rows are incomplete"))
    elif attached != expected.gpus:
        yield failed("gpu.count", reading, wanted, _counted(attached, "GPU"), remedy)
    elif shown < attached:
        yield could_not_check("gpu.count", reading, wanted, f"only {shown} of {attached} GPUs are shown")
    else:
        yield passed("gpu.count", reading, wanted, _counted(shown, "GPU"))


def _may_be_cut(reading: Reading, missing: int) -> bool:
    """Whether missing GPUs may have been in the text: in lines that were not understood, or after an early end."""
    if reading.kind == "smi-table":
        return not reading.data.get("complete") and not reading.data.get("trouble")
    return bool(reading.data.get("cut") or reading.data.get("unread", 0) >= missing)


def _why(reading: Reading, words: str) -> str:
    said = [*(reading.data.get("trouble") or ()), *reading.problems]
    return f"{words}: {_some(said)}" if said else words


def _some(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return "; ".join(lines[:_NAMED]) + more


# --- do they answer, what are they -----------------------------------------------------------------------------------


def _answer(reading: Reading, gpus: Sequence[Gpu], expected: Expected) -> Iterator[Check]:
    trouble = list(reading.data.get("trouble") or ())
    wanted = "every GPU answers"
    if trouble:
        yield failed("gpu.answer", reading, wanted, _some(trouble), remedy_for(trouble))
    elif not reading.understood:
        yield could_not_check("gpu.answer", reading, wanted, _some(reading.problems) or "nothing was printed")
    elif reading.kind != "proc-version":
        short = _shortfall(reading, gpus, expected) if gpus else "no GPU is listed"
        if not short and _distinct(gpus) < expected.gpus:
            short = f"{_counted(_distinct(gpus), 'GPU')} of {expected.gpus} answered"
        if short or reading.problems:
            # The part that was not understood may be the complaint.
            yield could_not_check(
                "gpu.answer", reading, wanted, _why(reading, short or "not all lines were understood")
            )
        else:
            yield passed("gpu.answer", reading, wanted, f"{_counted(_distinct(gpus), 'GPU')} answered")


def _rule(rule: Rule, reading: Reading, gpus: Sequence[Gpu], expected: Expected) -> Iterator[Check]:
    asked = {name for gpu in gpus for name in gpu} | set(reading.data.get("fields") or ())
    refused = rule.id == "gpu.recovery" and any(wants_reset(line) for line in reading.data.get("trouble") or ())
    if refused:
        yield _reset(reading)
    elif asked & set(rule.fields) or reading.kind in rule.always:
        yield _evaluated(rule, reading, gpus, expected)


def _evaluated(rule: Rule, reading: Reading, gpus: Sequence[Gpu], expected: Expected) -> Check:
    """One verdict over all GPUs: a wrong one decides, then an untold one, then whether all are shown."""
    name, wanted = rule.id, rule.expected(expected)
    found = [(label(dict(gpu)), *rule.evaluate(gpu, expected)) for gpu in gpus]
    wrong = [f"{who}: {words}" for who, verdict, words in found if verdict == "wrong"]
    if wrong:
        # On a product other than the profile's, the profile's settings may not apply.
        meant = all(evaluate_name(gpu, expected)[0] != "wrong" for gpu in gpus)
        return failed(name, reading, wanted, _some(wrong), rule.remedy, rule.command(expected) if meant else None)
    untold = [f"{who}: {words or 'not reported'}" for who, verdict, words in found if verdict == "untold"]
    if untold:
        about = [line for line in reading.problems if any(field in line for field in rule.fields)] or list(
            reading.problems
        )
        return could_not_check(name, reading, wanted, "; ".join([_some(untold), *([_some(about)] if about else [])]))
    words = list(dict.fromkeys(words for _, _, words in found))
    if all(verdict == "none" for _, verdict, _ in found):
        return not_applicable(name, reading, wanted, _some(words))
    silent = [f"{who}: {words}, unlike the others" for who, verdict, words in found if verdict == "none"]
    if silent:
        # GPUs of one host are of one kind: one that reports nothing while the others do may have a fault.
        return could_not_check(name, reading, wanted, _some(silent), "inspect that GPU with `nvidia-smi -q -i N`")
    short = _shortfall(reading, gpus, expected)
    if short:
        return could_not_check(name, reading, wanted, _why(reading, f"{short}, those pass"))
    told = words[0] if len(words) == 1 else "right"
    return passed(name, reading, wanted, f"{told} on each of {len(found)} GPUs" if len(found) > 1 else told)


def _reset(reading: Reading) -> Check:
    lines = [line for line in reading.data.get("trouble") or () if wants_reset(line)]
    return failed("gpu.recovery", reading, "no recovery action required by the driver", _some(lines), remedy_for(lines))


def _mig_devices(reading: Reading) -> Check:
    """Fail `gpu.mig` for listed partitions. `-L` never proves that MIG is off: it may be on without any."""
    rule = next(one for one in RULES if one.id == "gpu.mig")
    owners = sorted({str(one["gpu"]) for one in reading.data["mig"]})
    observed = f"{_counted(len(reading.data['mig']), 'MIG device')} on GPU {', '.join(owners)}"
    return failed("gpu.mig", reading, "MIG off", observed, rule.remedy)


def _firmware(reading: Reading, gpus: Sequence[Gpu], expected: Expected) -> Iterator[Check]:
    wanted = "the same VBIOS and InfoROM on all GPUs"
    corrupted = [line for line in reading.data.get("warnings") or () if "inforom" in line.lower()]
    corrupted += [
        f"{label(dict(gpu))}: checksum wrong" for gpu in gpus if gpu.get("inforom.checksum_validation") is False
    ]
    if corrupted:
        remedy = "reset the GPU; if the InfoROM stays corrupted, have the board replaced"
        yield failed("gpu.firmware", reading, wanted, _some(corrupted), remedy)
        return
    asked = [
        name for name in _FIRMWARE if any(name in gpu for gpu in gpus) or name in (reading.data.get("fields") or ())
    ]
    if not asked or expected.unified:
        return
    versions = {name: {str(gpu[name]).upper() for gpu in gpus if gpu.get(name)} for name in asked}
    mixed = [f"{name} is {' and '.join(sorted(found))}" for name, found in versions.items() if len(found) > 1]
    untold = [name for name in asked if any(name not in gpu for gpu in gpus)]
    if mixed:
        remedy = "find the board that was replaced, and update all boards to one release with the vendor's tool"
        yield failed("gpu.firmware", reading, wanted, "; ".join(mixed), remedy)
    elif untold:
        yield could_not_check(
            "gpu.firmware", reading, wanted, _why(reading, f"{untold[0]} is not reported for every GPU")
        )
    elif not any(versions.values()):
        yield not_applicable("gpu.firmware", reading, wanted, "not reported")
    elif short := _shortfall(reading, gpus, expected):
        yield could_not_check("gpu.firmware", reading, wanted, short)
    else:
        told = [f"{name} {found.copy().pop()}" for name, found in versions.items() if found]
        yield passed("gpu.firmware", reading, wanted, ", ".join(told))


def _processes(reading: Reading) -> Iterator[Check]:
    listed: list[dict[str, Any]] | None = reading.data.get("processes")
    wanted = "no process computes on a GPU"
    if listed is None:
        if reading.kind in ("smi-table", "smi-xml") and reading.data.get("gpus"):
            yield could_not_check("gpu.processes", reading, wanted, _why(reading, "the process list is incomplete"))
        return
    busy = [one for one in listed if "C" in str(one.get("type") or "C").upper()]
    words = [f"GPU {one.get('gpu')}: {one.get('name') or '?'} ({one.get('pid')})" for one in busy]
    if busy and all(_ENGINE.search(str(one.get("name") or "")) for one in busy):
        # This is fine while the model is served, and left over from a crash otherwise; a capture does not show which.
        remedy = "if no model is served there, kill them: they are left over and hold the memory"
        yield could_not_check("gpu.processes", reading, wanted, f"it may be the engine: {_some(words)}", remedy)
    elif busy:
        yield failed("gpu.processes", reading, wanted, _some(words), "stop these processes before the model is served")
    else:
        more = f", {len(listed)} only draw on a screen" if listed else ""
        yield passed("gpu.processes", reading, wanted, f"none{more}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
