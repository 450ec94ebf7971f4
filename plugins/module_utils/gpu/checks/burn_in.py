# SPDX-License-Identifier: Apache-2.0
"""Evaluates the burn-in by the profile: does every GPU compute correctly, and as fast as it should?

The reading's data is the document that the workload prints. The minimums are data of the profile (`burn_in` in
catalog/hardware); a figure without a minimum is shown and not evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...parsers.reading import Reading, of_kind, quoted
from ...verdicts import PASS
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import Expected
from .burn_in_host import check_host_copy
from .burn_in_load import check_clocks, check_power, check_throttle
from .dcgm import check_dcgm_run

KIND = "burn_in"
FORMAT = 2
"""The version of the workload's document."""
FP8_RATIO = 1.6
"""The least ratio of FP8 to bf16 speed, unless a profile gives another; the FP8 units are twice as fast."""
LEAST_SIZE = 8192
"""Rows of a matrix below which a product keeps a large GPU busy too briefly: the launch outweighs the computation, most
of all for FP8.
"""

RAN = "burn_in.ran"
_START = "fix what it reports (`docker run --rm --gpus all IMAGE nvidia-smi -L` tests an image), then run it again"
_RERUN = "fix what burn_in.ran reports, then run the burn-in again"
_SLOW = "check burn_in.clocks, burn_in.throttle and, for other processes, `nvidia-smi`; then run the burn-in again"


def check_burn_in(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Return every check of every burn-in reading."""
    return [check for reading in of_kind(readings, KIND) for check in _assessment(reading, expected)]


def _assessment(reading: Reading, expected: Expected) -> list[Check]:
    """Evaluate a document; a damaged one proves nothing and yields a COULD_NOT_CHECK."""
    try:
        return _checks(reading, expected)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"its result is damaged ({error!r}): {quoted(str(reading.data)[:200])}"
        return [could_not_check(RAN, reading, f"a run on {_counted(expected.gpus)}", why, "run the burn-in again")]


def _checks(reading: Reading, expected: Expected) -> list[Check]:
    document = reading.data
    if document.get("workload") != FORMAT or not isinstance(document.get("gpus"), list):
        told = "; ".join(reading.problems) or quoted(str(document)[:200])
        return [could_not_check(RAN, reading, f"a run on {_counted(expected.gpus)}", told, _START)]
    if not document["gpus"]:
        return [_not_run(reading, document, expected)]
    if document.get("device") != "cuda":
        return [_on_processor(reading, document)]
    ran = _ran(reading, document, expected)
    others = [
        _ratio(reading, document, expected),
        *(_rate(reading, document, expected, name) for name in ("bf16", "fp8", "bandwidth")),
        _repeatable(reading, document, expected),
        check_throttle(reading, document["gpus"]),
        check_clocks(reading, document["gpus"], _minimums(expected).get("clocks")),
        check_power(reading, document["gpus"], expected),
        _all_reduce(reading, document, expected),
        check_host_copy(reading, document["gpus"], expected),
        check_dcgm_run(reading, document.get("dcgm"), expected),
    ]
    if len(document["gpus"]) != expected.gpus:
        others = [_of_some(reading, document, one) if one["verdict"] == PASS else one for one in others]
    return [ran, *others]


def _of_some(reading: Reading, document: Mapping[str, Any], one: Check) -> Check:
    """Turn a pass into a COULD_NOT_CHECK: it says nothing about the GPUs that did not take part."""
    why = f"only {_counted(len(document['gpus']))} took part: {one['observed']}"
    return could_not_check(one["id"], reading, one["expected"], why, _RERUN)


def _not_run(reading: Reading, document: Mapping[str, Any], expected: Expected) -> Check:
    want, told = f"a run on {_counted(expected.gpus)}", "; ".join(document.get("problems") or ["no reason reported"])
    if not document.get("torch"):
        remedy = "use an image or a virtual environment that has PyTorch for this GPU"
        return could_not_check(RAN, reading, want, told, remedy)
    remedy = "check gpu.answer, fabric_manager.service, and that a container sees the GPUs; then run it again"
    return failed(RAN, reading, want, told, remedy)


def _on_processor(reading: Reading, document: Mapping[str, Any]) -> Check:
    """A run on the processor shows that the program works, and says nothing about any GPU."""
    problems = _problems(document)
    if problems:
        return failed(RAN, reading, "a run without problems", problems, "fix what it reports, then run it again")
    return not_applicable(RAN, reading, "a run on the GPUs", "run on the CPU, as requested: no GPU was tested")


def _ran(reading: Reading, document: Mapping[str, Any], expected: Expected) -> Check:
    want, gpus = f"{_counted(expected.gpus)} that finish the run", document["gpus"]
    problems = _problems(document)
    if len(gpus) != expected.gpus:
        problems = "; ".join(part for part in (f"{_counted(len(gpus))} took part", problems) if part)
    if problems:
        remedy = "check `dmesg` for Xid lines and `nvidia-smi` for other processes, then run the burn-in again"
        return failed(RAN, reading, want, problems, remedy)
    return passed(RAN, reading, want, f"{_counted(len(gpus))} in {document.get('seconds')} s")


def _problems(document: Mapping[str, Any]) -> str:
    own = [str(one) for one in document["problems"]]
    of_gpus = [f"GPU {gpu['index']}: {one}" for gpu in document["gpus"] for one in gpu["problems"]]
    return "; ".join([*own, *of_gpus])


def _minimums(expected: Expected) -> Mapping[str, Any]:
    return expected.hardware.get("burn_in") or {}


def _has_fp8(expected: Expected) -> bool:
    rates = expected.hardware.get("tflops")
    told = expected.hardware.get("fp8")
    return told is not False and not (rates and rates.get("fp8") is None)


def _ratio(reading: Reading, document: Mapping[str, Any], expected: Expected) -> Check:
    """Check that FP8 outruns bf16, else it bypasses the FP8 units: a wrong build, or no FP8 kernel for this GPU."""
    name, minimum = "burn_in.fp8_ratio", float(_minimums(expected).get("fp8_ratio") or FP8_RATIO)
    want = f"FP8 at least {minimum:g} times as fast as bf16"
    if not _has_fp8(expected):
        return not_applicable(name, reading, want, "this hardware has no FP8 units")
    ratios = _figures(document, lambda gpu: gpu["fp8_tflops"] / gpu["bf16_tflops"])
    remedy = (
        "FP8 does not run on the FP8 units: use an image whose PyTorch and CUDA are built for compute capability "
        f"{expected.compute_capability or 'of this GPU'}, with the pinned driver"
    )
    return _evaluated(name, reading, document, want, ratios, minimum, "times", remedy)


def _rate(reading: Reading, document: Mapping[str, Any], expected: Expected, name: str) -> Check:
    """Check a rate against the share of the data sheet's figure that a healthy GPU always reaches."""
    rates = expected.hardware.get("tflops") or {}
    kinds: dict[str, tuple[Any, str, str]] = {
        "bf16": (rates.get("bf16"), "bf16_tflops", "TFLOP/s"),
        "fp8": (rates.get("fp8"), "fp8_tflops", "TFLOP/s"),
        "bandwidth": (expected.hardware.get("memory_bandwidth_gb_s"), "bandwidth_gb_s", "GB/s"),
    }
    (nominal, key, unit), share = kinds[name], _minimums(expected).get(name)
    found = _figures(document, lambda gpu: float(gpu[key]))
    if name == "fp8" and not _has_fp8(expected):
        return not_applicable(f"burn_in.{name}", reading, "no FP8", "this hardware has no FP8 units")
    if nominal is None or share is None:
        return not_applicable(
            f"burn_in.{name}", reading, "no minimum in the profile", f"{_range(found, unit)}, not evaluated"
        )
    minimum = float(nominal) * float(share)
    want = f"at least {_figure(minimum)} {unit} ({share:.0%} of {_figure(nominal)})"
    remedy = _SLOW if name != "bandwidth" else f"see gpu.ecc_errors and gpu.remapped_rows; {_SLOW}"
    return _evaluated(f"burn_in.{name}", reading, document, want, found, minimum, unit, remedy)


def _evaluated(
    name: str,
    reading: Reading,
    document: Mapping[str, Any],
    want: str,
    found: Mapping[int, float | None],
    minimum: float,
    unit: str,
    remedy: str,
) -> Check:
    low = {gpu: value for gpu, value in found.items() if value is not None and value < minimum}
    small = [gpu for gpu in document["gpus"] if (gpu.get("size") or 0) < LEAST_SIZE and name != "burn_in.bandwidth"]
    if small:
        rows = small[0].get("size")
        why = f"only matrices of {rows} rows fit into the free memory, {LEAST_SIZE} are needed"
        return could_not_check(name, reading, want, why, "free memory on the GPU, then run the burn-in again")
    if low:
        listed = ", ".join(f"GPU {gpu}: {_figure(value)} {unit}" for gpu, value in low.items())
        return failed(name, reading, want, listed, remedy)
    missing = [gpu for gpu, value in found.items() if value is None]
    if missing:
        return could_not_check(name, reading, want, _not_measured(document, missing), _RERUN)
    return passed(name, reading, want, _range(found, unit))


def _figures(document: Mapping[str, Any], figure: Callable[[Mapping[str, Any]], float]) -> dict[int, float | None]:
    """The figure of each GPU; None for one that was not measured."""
    return {gpu["index"]: _measured(gpu, figure) for gpu in document["gpus"]}


def _measured(gpu: Mapping[str, Any], figure: Callable[[Mapping[str, Any]], float]) -> float | None:
    try:
        return figure(gpu)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _not_measured(document: Mapping[str, Any], missing: Sequence[int]) -> str:
    why = _problems(document)
    return f"no result from {_named(missing)}" + (f" ({quoted(why)})" if why else "")


def _repeatable(reading: Reading, document: Mapping[str, Any], expected: Expected) -> Check:
    """Check for silent corruption: a product that is wrong, or varies between repeats or GPUs."""
    name, gpus = "burn_in.repeatable", document["gpus"]
    want = "the same bits from every repeat and every GPU, and correct results where they are known"
    deviating = [f"GPU {gpu['index']}: {words}" for gpu in gpus for words in _deviations(gpu)]
    answers = {gpu["index"]: _digest(gpu) for gpu in gpus}
    usual = Counter(one for one in answers.values() if one).most_common(1)
    other = [index for index, one in answers.items() if one and one != usual[0][0]]
    if other:
        deviating.append(f"{_named(other)}: bits differ from those of the other GPUs")
    if deviating:
        remedy = (
            "take the GPU out of service: it computes wrong results without reporting an error; run `dcgmi diag -r 3` "
            "on it and have it replaced if that, or another burn-in, finds the fault again"
        )
        return failed(name, reading, want, "; ".join(deviating), remedy)
    missing = [gpu["index"] for gpu in gpus if not _complete(gpu, _has_fp8(expected))]
    if missing:
        return could_not_check(name, reading, want, _not_measured(document, missing), _RERUN)
    repeats = min(one["repeats"] for gpu in gpus for one in gpu["answers"].values())
    return passed(
        name, reading, want, f"the same bits {repeats} times before and after the load on {_counted(len(gpus))}"
    )


def _deviations(gpu: Mapping[str, Any]) -> list[str]:
    found = []
    for when, one in (gpu.get("answers") or {}).items():
        if one.get("different_sums", 1) > 1 or len(one.get("digests") or ()) > 1:
            found.append(f"different results of the same product in {one.get('repeats')} repeats ({when})")
        wrong = [kind for kind, right in (one.get("known") or {}).items() if right is False]
        if wrong:
            found.append(f"a wrong {' and '.join(wrong)} product ({when})")
    digests = {digest for one in (gpu.get("answers") or {}).values() for digest in one.get("digests") or ()}
    if len(digests) > 1 and not found:
        found.append("different results when cold and when hot")
    if gpu.get("copy_is_equal") is False:
        found.append("a copy in its memory differs from the original")
    return found


def _digest(gpu: Mapping[str, Any]) -> str | None:
    digests = [digest for one in (gpu.get("answers") or {}).values() for digest in one.get("digests") or ()]
    return str(digests[0]) if digests else None


def _complete(gpu: Mapping[str, Any], has_fp8: bool) -> bool:
    answers = gpu.get("answers") or {}
    kinds = ("bf16", "fp8") if has_fp8 else ("bf16",)
    return (
        gpu.get("copy_is_equal") is True
        and all(answers.get(when, {}).get("digests") for when in ("cold", "hot"))
        and all(one.get("different_sums") == 1 and one.get("repeats", 0) > 1 for one in answers.values())
        and all((one.get("known") or {}).get(kind) is True for one in answers.values() for kind in kinds)
    )


def _all_reduce(reading: Reading, document: Mapping[str, Any], expected: Expected) -> Check:
    """Check the all-reduce bandwidth of the host's GPUs over NVLink or PCIe, as nccl-tests computes it."""
    name, minimum = "burn_in.all_reduce", _minimums(expected).get("all_reduce_gb_s")
    want = f"a bus bandwidth of at least {_figure(minimum)} GB/s" if minimum else "no minimum in the profile"
    if expected.gpus < 2:
        return not_applicable(name, reading, "none", "all-reduce needs at least two GPUs")
    wrong = [gpu["index"] for gpu in document["gpus"] if (gpu.get("all_reduce") or {}).get("right") is False]
    remedy = "check topo.pairs, nvlink.links and fabric_manager.service: GPUs that do not use NVLink use PCIe"
    if wrong:
        return failed(name, reading, "the correct sum", f"{_named(wrong)} got a wrong sum from an all-reduce", remedy)
    found = _figures(
        document, lambda gpu: float(gpu["all_reduce"]["bus_gb_s"]) if gpu["all_reduce"]["right"] is True else float("x")
    )
    missing = [gpu for gpu, value in found.items() if value is None]
    if missing or len(found) != expected.gpus:
        why = _not_measured(document, missing) if missing else f"{_counted(len(found))} took part"
        return could_not_check(name, reading, want, why, _RERUN)
    # All wait for each other, so the slowest one's figure is the figure of all.
    slowest = min(value for value in found.values() if value is not None)
    if not minimum:
        return not_applicable(name, reading, want, f"{_figure(slowest)} GB/s, not evaluated")
    if slowest < float(minimum):
        return failed(name, reading, want, f"{_figure(slowest)} GB/s", remedy)
    return passed(name, reading, want, f"{_figure(slowest)} GB/s")


def _range(found: Mapping[int, float | None], unit: str) -> str:
    values = sorted(value for value in found.values() if value is not None)
    if not values:
        return "not measured"
    first, last = _figure(values[0]), _figure(values[-1])
    return f"{first} {unit}" if first == last else f"{first} to {last} {unit}"


def _figure(value: float) -> str:
    """Format a figure with three digits, which is already more than two runs agree on."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _counted(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _named(indices: Sequence[int]) -> str:
    return f"GPU{'' if len(indices) == 1 else 's'} {', '.join(str(index) for index in indices)}"
