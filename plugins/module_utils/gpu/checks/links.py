# SPDX-License-Identifier: Apache-2.0
"""Checks of NVLink: every link of every GPU is present, active, fast enough, and free of errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...parsers.nvlink import ERRORS, STATUS
from ...parsers.reading import Reading, of_kind, quoted
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import Expected
from ..partition import ACTIVATE
from .gpu_rules import RULES

LINKS, SPEED, COUNTERS, GPUS = "nvlink.links", "nvlink.speed", "nvlink.errors", "nvlink.gpus"
NAME, ANSWER, MIG = "gpu.name", "gpu.answer", "gpu.mig"

_NO_ERRORS = re.compile(r"\bfec\b|\bber\b", re.IGNORECASE)
"""Counters that are high on a healthy link as well: corrections that its coding is designed to make."""
_AN_ERROR = re.compile(
    r"replay|recovery|crc|malformed|overrun|^rx|integrity|discard|effective|symbol|error|fail", re.IGNORECASE
)
_CLASSIC = frozenset({"replay", "recovery", "crc"})
_LEAST_COUNTERS = 3
_NAMED = 8
"""Links or GPUs that a message lists before it only counts them."""

_RESTART = "systemctl restart nvidia-fabricmanager"
_REMEDY_ALL = "start the fabric manager of the driver's version; without it no GPU has NVLink"
_REMEDY_ALL_MESH = "reboot the host; in a virtual machine have NVLink passed through, or use a profile without NVLink"
_REMEDY_SOME = "stop what uses the GPUs, reset them or reboot; have the board serviced if the link stays down"
_REMEDY_SLOW = "stop what uses the GPUs, reset them or reboot, to retrain the links"
_REMEDY_ERRORS = (
    "reset the GPUs or reboot, read the counters again under load, and have the board serviced if they grow"
)
_REMEDY_OTHER = "choose the hardware profile of this machine, or find out why it has another board"


@dataclass
class _Found:
    """The evidence against a check, and the reasons why it cannot be made."""

    wrong: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)

    def check(self, name: str, reading: Reading, expected: str, right: str, remedy: str, command: str | None) -> Check:
        if self.wrong:
            return failed(name, reading, expected, _some(self.wrong), remedy, command)
        if self.unclear:
            return could_not_check(name, reading, expected, _some(self.unclear))
        return passed(name, reading, expected, right)


def check_links(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Return nvlink.links, .speed, .errors and .gpus of every reading of `nvidia-smi nvlink`."""
    return [one for reading in of_kind(readings, "nvlink") for one in _reading_checks(reading, expected)]


def _reading_checks(reading: Reading, expected: Expected) -> list[Check]:
    gpus: list[dict[str, Any]] = reading.data.get("gpus") or []
    wanted = _wanted(expected)
    checks = [*_answer(reading), *_names(reading, gpus, expected), *_mig(reading, gpus)]
    if not reading.understood:
        return [could_not_check(LINKS, reading, wanted, _some(list(reading.problems)) or "nothing readable")]
    if not expected.has_nvlink:
        return [*checks, *_without_nvlink(reading, gpus, expected)]
    if not gpus:
        why = _some([*map(quoted, reading.data.get("trouble", ())), *reading.problems]) or "the text shows no GPU"
        return [*checks, could_not_check(LINKS, reading, wanted, why)]
    shows = reading.data.get("shows", ())
    if STATUS in shows:
        checks += _status(reading, gpus, expected)
    if ERRORS in shows:
        checks.append(_errors(reading, gpus, expected))
    if STATUS not in shows and ERRORS not in shows:
        why = _some(list(reading.problems)) or "the text shows neither the state nor the errors of a link"
        checks.append(could_not_check(LINKS, reading, wanted, why))
    return [*checks, *_gpus(reading, gpus, expected)]


def _wanted(expected: Expected) -> str:
    if not expected.has_nvlink:
        return "no NVLink"
    gpus = f"each of {expected.gpus} GPUs" if expected.gpus > 1 else "the GPU"
    return f"{expected.links_per_gpu} active links on {gpus}"


def _answer(reading: Reading) -> list[Check]:
    trouble = reading.data.get("trouble") or ()
    if not trouble:
        return []
    remedy = "look for the GPU's Xid in the kernel's log, then reset the GPU or reboot the host"
    return [failed(ANSWER, reading, "every GPU answers", _some([quoted(line) for line in trouble]), remedy)]


def _mig(reading: Reading, gpus: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Fail `gpu.mig` where it is on; GPUs that report their links need not state that it is off."""
    parted = [f"{_label(one)}: MIG is on" for one in gpus if one.get("mig")]
    if not parted:
        return []
    return [failed(MIG, reading, "MIG off", _some(parted), next(one.remedy for one in RULES if one.id == MIG))]


def _names(reading: Reading, gpus: Sequence[Mapping[str, Any]], expected: Expected) -> list[Check]:
    """Fail `gpu.name` where another product is named; a correct name on one GPU proves nothing about the others."""
    other = [one for one in gpus if _is_other(one, expected)]
    if not other:
        return []
    names = {str(one["name"]) for one in other}
    if len(other) == len(gpus) > 1 and len(names) == 1:
        found = f"{len(gpus)} GPUs are {names.pop()}"
    else:
        found = _some([f"{_label(one)} is {one['name']}" for one in other])
    return [failed(NAME, reading, expected.gpu_name, found, _REMEDY_OTHER)]


def _is_other(gpu: Mapping[str, Any], expected: Expected) -> bool:
    # A name that is not followed by a UUID may have been cut off.
    return bool(gpu.get("uuid") and gpu.get("name")) and _plain(gpu["name"]) != _plain(expected.gpu_name)


def _plain(name: str) -> str:
    return " ".join(str(name).split()).lower().removeprefix("nvidia ")


def _label(gpu: Mapping[str, Any]) -> str:
    return "a GPU that is not named" if gpu.get("index") is None else f"GPU {gpu['index']}"


# --- hardware without NVLink -----------------------------------------------------------------------------------------


def _without_nvlink(reading: Reading, gpus: Sequence[Mapping[str, Any]], expected: Expected) -> list[Check]:
    active = [one for one in gpus if any(speed for speed in (one.get("links") or {}).values())]
    if active and expected.gpus > 1:
        found = _some([f"{_label(one)} has {_count(_active(one), 'active link')}" for one in active])
        return [failed(LINKS, reading, _wanted(expected), found, _REMEDY_OTHER)]
    if not gpus and not reading.data.get("silent"):
        return []
    told = "active links, which a single GPU does not use" if active else "no active link"
    checks = [not_applicable(LINKS, reading, _wanted(expected), told)]
    if gpus:
        checks += _gpus(reading, gpus, expected)
    return checks


# --- GPUs that are shown ---------------------------------------------------------------------------------------------


def _indexes(gpus: Sequence[Mapping[str, Any]]) -> set[int]:
    return {one["index"] for one in gpus if one.get("index") is not None}


def _gpus(reading: Reading, gpus: Sequence[Mapping[str, Any]], expected: Expected) -> list[Check]:
    shown = _indexes(gpus)
    wanted = _count(expected.gpus, "GPU")
    if len(shown) > expected.gpus:
        return [failed(GPUS, reading, wanted, _count(len(shown), "GPU"), _REMEDY_OTHER)]
    if shown != set(range(expected.gpus)):
        names = _some([f"GPU {index}" for index in sorted(shown)], ", ")
        why = f"only {names} {'is' if len(shown) == 1 else 'are'} shown" if shown else "no GPU is named"
        return [could_not_check(GPUS, reading, wanted, why, "capture `nvidia-smi nvlink -s` without -i")]
    if len(gpus) > len(shown) or reading.problems:
        return [could_not_check(GPUS, reading, wanted, _some(list(reading.problems)) or "a GPU is not named")]
    return [passed(GPUS, reading, wanted, wanted)]


def _not_all_shown(reading: Reading, gpus: Sequence[Mapping[str, Any]], expected: Expected) -> list[str]:
    """Why the GPUs shown do not stand for all of them; a single GPU is the output of `-i`, and stands for itself."""
    shown = _indexes(gpus)
    if len(gpus) == 1 and len(shown) == 1 and reading.data.get("one_gpu") is not False:
        return []
    if len(shown) < expected.gpus:
        return [f"{len(shown)} of {expected.gpus} GPUs are shown"]
    return [] if len(gpus) == len(shown) else ["a GPU is not named"]


# --- state and speed -------------------------------------------------------------------------------------------------


def _status(reading: Reading, gpus: Sequence[Mapping[str, Any]], expected: Expected) -> list[Check]:
    links = _Found(unclear=[*_not_all_shown(reading, gpus, expected), *reading.problems])
    speed = _Found()
    board = _other_board(gpus, expected)
    links.wrong += board
    for gpu in gpus:
        _evaluate_links(gpu, expected, links, bool(board))
        slow = {link: value for link, value in (gpu.get("links") or {}).items() if value and _is_slow(value, expected)}
        if slow:
            shown = ", ".join(f"link {link} {value:g} GB/s" for link, value in list(slow.items())[:_NAMED])
            speed.wrong.append(f"{_label(gpu)}: {shown}{', ...' if len(slow) > _NAMED else ''}")
    speed.unclear = list(links.unclear)
    speeds = [value for gpu in gpus for value in (gpu.get("links") or {}).values() if value]
    dead = all(one.get("all_inactive") or one.get("supported") is False or not _active(one) for one in gpus)
    remedy, command = _REMEDY_SOME, None
    if board or any(_is_other(one, expected) for one in gpus):
        remedy = _REMEDY_OTHER
    elif dead and expected.fabric_by_host:
        remedy = ACTIVATE
    elif dead and expected.nvswitch:
        # While other GPUs may be using their links, nothing is restarted.
        remedy, command = _REMEDY_ALL, _RESTART if len(_indexes(gpus)) == expected.gpus else None
    elif dead:
        remedy = _REMEDY_ALL_MESH
    checks = [links.check(LINKS, reading, _wanted(expected), _all_right(gpus, expected), remedy, command)]
    if speeds:
        minimum = f"at least {expected.minimum_link_gb_s:g} GB/s on each link"
        least, most = min(speeds), max(speeds)
        right = f"{least:g} GB/s" if least == most else f"{least:g} to {most:g} GB/s"
        checks.append(speed.check(SPEED, reading, minimum, right, _REMEDY_SLOW, None))
    return checks


def _is_slow(speed: float, expected: Expected) -> bool:
    return speed < expected.minimum_link_gb_s


def _active(gpu: Mapping[str, Any]) -> int:
    return sum(1 for speed in (gpu.get("links") or {}).values() if speed)


def _other_board(gpus: Sequence[Mapping[str, Any]], expected: Expected) -> list[str]:
    """Report link counts that no damage to the text explains: all GPUs are shown, with the same other count."""
    counts = {len(one.get("links") or {}) for one in gpus}
    first = gpus[0].get("links") or {}
    if len(gpus) < 2 or len(counts) != 1 or counts & {0, expected.links_per_gpu}:
        return []
    if _indexes(gpus) != set(range(expected.gpus)) or set(map(int, first)) != set(range(len(first))):
        return []
    return [f"{_count(len(first), 'link')} on each of {len(gpus)} GPUs"]


def _evaluate_links(gpu: Mapping[str, Any], expected: Expected, found: _Found, board_told: bool) -> None:
    label, count = _label(gpu), expected.links_per_gpu or 0
    if gpu.get("mig"):
        found.unclear.append(f"{label} does not report its links, as MIG is on")
        return
    shown = {int(link) for link in gpu.get("links") or {}}
    if gpu.get("supported") is False:
        found.wrong.append(f"{label} reports that it has no NVLink")
        return
    if gpu.get("all_inactive"):
        found.wrong.append(f"{label}: all links are inactive")
        return
    inactive = sorted(int(link) for link, speed in (gpu.get("links") or {}).items() if not speed)
    missing = sorted(set(range(count)) - shown)
    extra = sorted(shown - set(range(count)))
    if inactive:
        verb = "is" if len(inactive) == 1 else "are"
        found.wrong.append(f"{label}: {_active(gpu)} of {count} links active, {_numbers(inactive)} {verb} not")
    if (missing or extra) and not board_told:
        if extra or (shown and _is_other(gpu, expected)):
            found.wrong.append(f"{label}: {_count(len(shown), 'link')}")
        else:
            found.unclear.append(
                f"{label}: {_numbers(missing, 'link')} {'is' if len(missing) == 1 else 'are'} not shown"
            )


def _all_right(gpus: Sequence[Mapping[str, Any]], expected: Expected) -> str:
    links = f"{expected.links_per_gpu} links"
    return f"{links} on {_label(gpus[0])}" if len(gpus) == 1 else f"{links} on each of {len(gpus)} GPUs"


# --- errors ----------------------------------------------------------------------------------------------------------


def _is_error(counter: str) -> bool:
    return bool(_AN_ERROR.search(counter)) and not _NO_ERRORS.search(counter)


def _errors(reading: Reading, gpus: Sequence[Mapping[str, Any]], expected: Expected) -> Check:
    found = _Found(unclear=[*_not_all_shown(reading, gpus, expected), *reading.problems])
    names = {
        name
        for gpu in gpus
        for counts in (gpu.get("errors") or {}).values()
        for name, value in counts.items()
        if value is not None and _is_error(name)
    }
    if not names >= _CLASSIC and len(names) < _LEAST_COUNTERS:
        found.unclear.append("the counters of replays, recoveries and CRC errors are not all shown")
    for gpu in gpus:
        own = gpu.get("errors") or {}
        for link, counts in own.items():
            high = {name: value for name, value in counts.items() if value and _is_error(name)}
            if high:
                listed = ", ".join(f"{name} {value:g}" for name, value in sorted(high.items()))
                found.wrong.append(f"{_label(gpu)} link {link}: {listed}")
        whole = {int(link) for link, counts in own.items() if all(counts.get(name) is not None for name in names)}
        missing = sorted(set(range(expected.links_per_gpu or 0)) - whole)
        if missing:
            found.unclear.append(f"{_label(gpu)}: not all counters of {_numbers(missing, 'link')} are shown")
    return found.check(COUNTERS, reading, "no errors on any link", "no errors", _REMEDY_ERRORS, None)


# --- sentences -------------------------------------------------------------------------------------------------------


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _numbers(numbers: Sequence[int], word: str = "") -> str:
    """`7 and 12`, or `links 7 and 12`; only the count if there are too many."""
    if len(numbers) > _NAMED:
        return _count(len(numbers), word) if word else f"{len(numbers)} of them"
    front = ", ".join(str(number) for number in numbers[:-1])
    listed = f"{front} and {numbers[-1]}" if front else str(numbers[-1])
    return f"{word}{'s' if len(numbers) > 1 else ''} {listed}" if word else listed


def _some(sentences: Sequence[str], between: str = "; ") -> str:
    """Join the first few sentences, and state how many more there are."""
    unique = list(dict.fromkeys(sentences))
    more = f"{between}and {len(unique) - _NAMED} more" if len(unique) > _NAMED else ""
    return between.join(unique[:_NAMED]) + more
