# SPDX-License-Identifier: Apache-2.0
"""Checks how a host's GPUs reach each other and their network cards, by the matrix of `nvidia-smi topo -m`.

A failed check has, besides the fields of every check, `marks`: the cells of the matrix that are wrong, for the picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...parsers.reading import Reading, of_kind
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import PCIE, Expected
from ..partition import ACTIVATE
from ..pcie_paths import NEAR, Pair, is_nvlink, looks_like, meaning, pairs_of, way
from .gpu_trouble import remedy_for

ANSWER, COUNT, PAIRS, NICS = "gpu.answer", "gpu.count", "topo.pairs", "topo.nics"
_NAMED = 6
"""Pairs that are listed one by one; the rest are only counted."""
_SLOW = "PCIe only, no NVLink: tensor parallel will be slow"
_AGAIN = "capture the whole output of `nvidia-smi topo -m` again"
_FIND = "find the GPUs that are missing first"
_LISTED = "load the RDMA driver (mlx5_ib) and capture outside of a container, as only RDMA devices are listed"


def check_topology(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Check the GPUs that are listed, the path between every two of them, and the network card near each."""
    return [check for reading in of_kind(readings, "topo") for check in _checks(reading, expected)]


def _checks(reading: Reading, expected: Expected) -> Iterator[Check]:
    trouble = reading.data.get("trouble")
    if trouble:
        yield failed(ANSWER, reading, "a matrix", "; ".join(trouble), remedy_for(trouble))
    if not reading.data.get("gpus"):
        why = _why(reading)
        yield could_not_check(COUNT, reading, _gpus(expected.gpus), why, _AGAIN)
        if expected.gpus > 1:
            yield could_not_check(PAIRS, reading, _between(expected), why, _AGAIN)
        return
    yield _count(reading, expected)
    yield _pairs(reading, expected)
    yield _nics(reading, expected)


def _why(reading: Reading) -> str:
    return "; ".join(reading.problems[:3]) or "the matrix is not complete"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _between(expected: Expected) -> str:
    return (
        f"{' or '.join(expected.pairs)} between every two GPUs" if expected.pairs else "the path between every two GPUs"
    )


# --- the GPUs --------------------------------------------------------------------------------------------------------


def _count(reading: Reading, expected: Expected) -> Check:
    seen = len(reading.data["gpus"])
    if not reading.data["gpus_complete"]:
        return could_not_check(COUNT, reading, _gpus(expected.gpus), _why(reading), _AGAIN)
    if seen == expected.gpus:
        return passed(COUNT, reading, _gpus(expected.gpus), _gpus(seen))
    remedy = (
        "look for GPUs that fell off the bus (Xid 79 in the kernel's log, `lspci -d 10de:`), then restart the host; "
        "if it never had more, choose its own profile"
    )
    if seen > expected.gpus:
        remedy = "choose the hardware profile that has as many GPUs as the host"
    return failed(COUNT, reading, _gpus(expected.gpus), _gpus(seen), remedy)


# --- the pairs -------------------------------------------------------------------------------------------------------


def _pairs(reading: Reading, expected: Expected) -> Check:
    topo = reading.data
    gpus: list[str] = topo["gpus"]
    if expected.gpus == 1 and len(gpus) == 1:
        return not_applicable(PAIRS, reading, "nothing, as there is one GPU", "one GPU")
    if topo["pci_only"]:
        why = "the matrix of `nvidia-smi topo -mp`, which omits NVLink"
        return could_not_check(PAIRS, reading, _between(expected), why, "capture `nvidia-smi topo -m`")
    if not expected.pairs:
        why = f"{_gpus(len(gpus))}, and the profile {expected.profile} does not say how they are connected"
        return could_not_check(PAIRS, reading, _between(expected), why, "choose the profile of this hardware")
    ways = {pair: way(topo, *pair) for pair in pairs_of(gpus)}
    wrong = {pair: word for pair, word in ways.items() if word and word not in expected.pairs}
    if wrong:
        remedy = _remedy(wrong, len(ways), expected)
        slow = f"{_SLOW}; " if not any(is_nvlink(word) for word in ways.values() if word) else ""
        return failed(PAIRS, reading, _between(expected), slow + _found(wrong, gpus), remedy) | _marks(wrong)
    if not topo["gpus_complete"]:
        holes = [pair for pair, word in ways.items() if word is None]
        return could_not_check(PAIRS, reading, _between(expected), _why(reading), _AGAIN) | _marks(holes)
    if len(gpus) < expected.gpus:
        shown = f"{_said(ways.values())}, but only of {len(gpus)} of {expected.gpus} GPUs" if ways else "one GPU alone"
        return could_not_check(PAIRS, reading, _between(expected), shown, _FIND)
    return passed(PAIRS, reading, _between(expected), _said(ways.values()))


def _marks(pairs: Mapping[Pair, Any] | Sequence[Pair]) -> dict[str, list[list[str]]]:
    return {"marks": [list(pair) for pair in pairs]}


def _said(words: Any) -> str:
    """The connections of all pairs, for a message about a healthy matrix."""
    counts = Counter(words)
    pairs = f"all {sum(counts.values())} pairs" if sum(counts.values()) > 1 else "the one pair"
    if len(counts) == 1 and is_nvlink(next(iter(counts))):
        return f"{next(iter(counts))} between {pairs} of GPUs"
    each = ", ".join(f"{_number(counts[word])} {word} ({meaning(word)})" for word in PCIE if counts[word])
    return f"{_SLOW}; {each}"


def _number(pairs: int) -> str:
    return "1 pair" if pairs == 1 else f"{pairs} pairs"


def _found(wrong: Mapping[Pair, str], gpus: Sequence[str]) -> str:
    """Describe the wrong pairs as briefly as possible: all, all of one GPU, or one by one."""
    counts = Counter(wrong.values())
    every = len(gpus) * (len(gpus) - 1) // 2
    if len(wrong) == every:
        only = next(iter(counts))
        each = ", ".join(f"{_number(count)} {word} ({meaning(word)})" for word, count in sorted(counts.items()))
        return (
            f"{only} ({meaning(only)}) between every two GPUs" if len(counts) == 1 else f"all pairs are wrong: {each}"
        )
    left = dict(wrong)
    parts = []
    for gpu in gpus:
        own = {pair: word for pair, word in left.items() if gpu in pair}
        if (
            len(own) > 1
            and len([pair for pair in wrong if gpu in pair]) == len(gpus) - 1
            and len(set(own.values())) == 1
        ):
            parts.append(f"{gpu} to every other GPU: {next(iter(own.values()))}")
            left = {pair: word for pair, word in left.items() if gpu not in pair}
    named = [f"{one} to {other}: {word}" for (one, other), word in left.items()]
    more = [f"and {len(named) - _NAMED} more pairs"] if len(named) > _NAMED else []
    return ", ".join([*parts, *named[:_NAMED], *more])


def _remedy(wrong: Mapping[Pair, str], every: int, expected: Expected) -> str:
    """The remedy for the most likely cause."""
    words = set(wrong.values())
    if not expected.has_nvlink:
        return (
            "choose the profile of this hardware: GPUs connected by NVLink, on a board or with a bridge, need another"
        )
    if len(wrong) == every and not any(is_nvlink(word) for word in words):
        if expected.fabric_by_host:
            return f"{ACTIVATE}; for PCIe cards choose their profile (h100-pcie)"
        manager = "start the fabric manager of the driver's version, " if expected.nvswitch else ""
        return (
            f"{manager}turn MIG off, in a virtual machine have the NVLinks passed through, "
            "and for PCIe cards choose their profile (h100-pcie)"
        )
    if len(wrong) == every and len(words) == 1:
        word = next(iter(words))
        like = looks_like(word)
        if like:
            return f"choose the profile of this hardware: it looks like {like}; else check `nvidia-smi nvlink -s`"
    gpus = Counter(gpu for pair in wrong for gpu in pair)
    worst = max(gpus, key=lambda gpu: (gpus[gpu], gpu))
    return (
        f"see with `nvidia-smi nvlink -s -i {worst[3:]}` which links are down, stop the workload and restart the host; "
        "if they stay down, the board needs service"
    )


# --- the network cards -----------------------------------------------------------------------------------------------


def _in_place_of(gpus: Sequence[str], expected: Expected) -> str:
    return f"{_gpus(len(gpus))} instead of {expected.gpus}"


def _nics(reading: Reading, expected: Expected) -> Check:
    topo = reading.data
    gpus, nics = topo["gpus"], topo["nics"]
    wanted = "a network card over PIX or PXB for every GPU"
    if expected.unified:
        return _twins(reading, expected)
    if not nics:
        if not expected.nics:
            return not_applicable(NICS, reading, wanted, "no RDMA network card is listed")
        return could_not_check(NICS, reading, wanted, "no RDMA network card is listed", _LISTED)
    if not topo["complete"]:
        return could_not_check(NICS, reading, wanted, _why(reading), _AGAIN)
    far = [gpu for gpu in gpus if not any(way(topo, gpu, nic) in NEAR for nic in nics)]
    if not far and len(gpus) < expected.gpus:
        return could_not_check(NICS, reading, wanted, _in_place_of(gpus, expected), _FIND)
    if not far:
        return passed(NICS, reading, wanted, f"each of {_gpus(len(gpus))} has one, of {len(nics)}")
    # Many servers have fewer cards than GPUs, or cards for management only, and a virtual machine shows them without
    # their bridges. But if every GPU except one has a card, that one has lost its own.
    meant = expected.nics or (len(far) == 1 and len(gpus) > 2)
    observed = f"{', '.join(far)} of {_gpus(len(gpus))} without one, {len(nics)} listed"
    if not meant:
        return not_applicable(NICS, reading, f"{wanted}, where there is one for each", observed)
    remedy = (
        "look for a card that is missing or in another slot (`lspci -d 15b3:`, `lspci -tv`), and at ACS in the BIOS"
    )
    marks = [(gpu, nic) for gpu in far for nic in nics]
    return failed(NICS, reading, wanted, observed, remedy) | _marks(marks)


def _twins(reading: Reading, expected: Expected) -> Check:
    """Check a GPU in one package with the processor: cards sit at its host bridges, cage halves side by side."""
    topo = reading.data
    gpus, nics = topo["gpus"], topo["nics"]
    wanted = f"{expected.nics or 'the'} ports, each NODE from the GPU and PIX from its twin"
    if not nics:
        if not expected.nics:
            return not_applicable(NICS, reading, wanted, "no RDMA network card is listed")
        return could_not_check(NICS, reading, wanted, "no RDMA network card is listed", _LISTED)
    if not topo["complete"]:
        return could_not_check(NICS, reading, wanted, _why(reading), _AGAIN)
    if any("bond" in name for name in topo["nic_names"].values()):
        return could_not_check(NICS, reading, wanted, "ports are in a bond, which hides them", "remove the bond")
    far = [(gpu, nic) for gpu in gpus for nic in nics if way(topo, gpu, nic) not in {"NODE", "PHB", *NEAR}]
    alone = [nic for nic in nics if not any(way(topo, nic, other) == "PIX" for other in nics if other != nic)]
    count = len(nics) != expected.nics if expected.nics else False
    if not (far or alone or count):
        return passed(NICS, reading, wanted, f"{len(nics)} ports, NODE from the GPU, each PIX from its twin")
    if len(gpus) != expected.gpus:
        return could_not_check(
            NICS, reading, wanted, _in_place_of(gpus, expected), "choose the profile of this hardware"
        )
    parts = [f"{nic} is {way(topo, gpu, nic)} from {gpu}" for gpu, nic in far]
    parts += [f"{nic} has no twin at PIX" for nic in alone]
    parts += [f"{len(nics)} ports"] if count else []
    remedy = "look for functions of the network card that are missing (`lspci -d 15b3:`), and restart the host"
    marks = far or [(gpu, nic) for gpu in gpus for nic in alone]
    return failed(NICS, reading, wanted, "; ".join(parts), remedy) | _marks(marks)
