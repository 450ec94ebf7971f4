# SPDX-License-Identifier: Apache-2.0
"""Checks of the kernel log: faults of GPUs (Xid) and switches (SXid), slow PCIe links, ports that lose their link."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...parsers.reading import Reading, of_kind, quoted
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import Expected
from ..partition import RUN_BY_HOST
from ..xid import APPLICATION, FATAL, GSP, REBOOT, RESET, meaning

XID, SXID, PCIE, FLAPS = "kernel.xid", "kernel.sxid", "kernel.pcie", "kernel.flaps"

MOST_LOSSES_A_DAY = 5
"""Link losses that a port may have in 24 hours: a switch that is restarted, a cable that is moved."""
_FAST_GBIT = 100.0
"""The least capacity of a GPU's or fabric port's slot; slower devices are ignored."""
_IDLE_GT_S = 2.5
_SPARK_WIDTH, _SPARK_GT_S = 4, 32.0
_NAMED = 6

_NO_FAULT = "no Xid of a hardware fault"
_NO_SXID = "no fatal SXid"
_ALL_LANES = "every GPU and fabric port with all its PCIe lanes"
_FEW_LOSSES = f"no port that loses its link more than {MOST_LOSSES_A_DAY} times a day, or stays down"
_REMEDY_LOG = "capture the log from the boot on, unfiltered (`journalctl -k -b`, or `dmesg` as root)"
_REMEDY_SXID = "stop what uses the GPUs and reboot the host; have the NVSwitch board serviced if it recurs"
_REMEDY_PCIE = "reseat the card and its riser, and check the slot's width and generation in the BIOS"
_REMEDY_FLAPS = "clean or replace the cable and its optics, and check the switch port"
_FAULT_WORDS = {
    "lost": ("the GPU is lost", REBOOT),
    "init": ("the driver could not initialise the GPU", RESET),
    "none": ("the driver found no GPU", "compare with `lspci -d 10de:`, and boot the host cold"),
    "gsp": ("the GPU's own processor (GSP) does not answer", GSP),
}
MISMATCH = "mismatch"
_LETS_XID = re.compile(r"nvrm|xid|nvidia", re.IGNORECASE)
_LETS_SXID = re.compile(r"sxid|xid|nvidia|nvswitch", re.IGNORECASE)


def check_kernel(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Return kernel.xid and kernel.sxid of every log, and kernel.pcie and kernel.flaps if the log can show them."""
    return [one for reading in of_kind(readings, "kernel-log") for one in _log_checks(reading, expected)]


def _log_checks(reading: Reading, expected: Expected) -> list[Check]:
    if not reading.understood:
        why = "; ".join(reading.problems[:_NAMED]) or "the text has no log lines"
        return [could_not_check(XID, reading, _NO_FAULT, why, _REMEDY_LOG)]
    return [
        _xid(reading),
        _sxid(reading, expected),
        *_mismatch(reading),
        *_pcie(reading, expected),
        *_flaps(reading),
    ]


def _doubts(reading: Reading, *about: str) -> list[str]:
    return [problem for problem, what in (reading.data.get("doubts") or {}).items() if what in about]


def _cannot_show(reading: Reading, lets_through: re.Pattern[str], driver: str) -> str:
    """Why the absence of a line proves nothing; empty if the log would contain it."""
    data = reading.data
    told = data.get("filter")
    if told and not lets_through.search(told):
        return f"the log is filtered by {quoted(told)}"
    if not data.get("kernel_lines"):
        return "the log has no kernel lines"
    if told or any(data.get(key) for key in ("from_boot", "from_load", "varied", driver)):
        return ""
    return f"only {_lines(data['kernel_lines'])}, none from the driver that would report it"


def _lines(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'} of the kernel"


def _times(event: Mapping[str, Any]) -> str:
    count = event["count"]
    often = "" if count == 1 else f" {count} times"
    where = f" on {event['bus']}" if event.get("bus") else ""
    last = f", last at {event['last']}" if event.get("last") else ""
    return f"{often}{where}{last}"


def _some(sentences: Sequence[str]) -> str:
    unique = list(dict.fromkeys(sentences))
    more = f"; and {len(unique) - _NAMED} more" if len(unique) > _NAMED else ""
    return "; ".join(unique[:_NAMED]) + more


# --- Xid and SXid ----------------------------------------------------------------------------------------------------


def _xid(reading: Reading) -> Check:
    wrong: list[str] = []
    remedies: list[str] = []
    harmless: list[str] = []
    unknown: list[str] = []
    for event in reversed(reading.data.get("xids") or []):  # newest first
        known = meaning(event["number"], event.get("text", ""))
        if known is None:
            unknown.append(f"Xid {event['number']}{_times(event)}: {quoted(event.get('text', ''))}")
            continue
        sentence = f"Xid {event['number']} ({known.name}){_times(event)}"
        if known.severity == FATAL:
            wrong.append(sentence)
            remedies.append(known.remedy)
        else:
            note = "an application error" if known.severity == APPLICATION else "watch for recurrence"
            harmless.append(f"{sentence}: {note}")
    for event in reversed(reading.data.get("faults") or []):
        if event["what"] == MISMATCH:
            continue  # this concerns the driver, not a GPU
        words, remedy = _FAULT_WORDS[event["what"]]
        # The driver reports the same as an Xid, too, unless there are too many lines to print.
        if not wrong or not any(event["bus"] and event["bus"][:10] in one for one in wrong):
            wrong.append(f"{words}{_times(event)}: {quoted(event['text'])}")
            remedies.append(remedy)
    if wrong:
        return failed(XID, reading, _NO_FAULT, _some(wrong), "; ".join(list(dict.fromkeys(remedies))[:2]))
    if unknown:
        return could_not_check(
            XID, reading, _NO_FAULT, _some(unknown), "look up the number in NVIDIA's list of Xid errors"
        )
    doubts = _doubts(reading, "xid", "refused")
    why = _some(doubts) or _cannot_show(reading, _LETS_XID, "nvidia")
    if why:
        return could_not_check(XID, reading, _NO_FAULT, why, _REMEDY_LOG)
    none = f"none in {_lines(reading.data['kernel_lines'])}"
    return passed(XID, reading, _NO_FAULT, _some(harmless) if harmless else none)


def _sxid(reading: Reading, expected: Expected) -> Check:
    events = list(reversed(reading.data.get("sxids") or []))
    doubts = _doubts(reading, "sxid", "refused")
    if not expected.nvswitch and not events and not doubts:
        return not_applicable(SXID, reading, _NO_SXID, "no NVSwitch")
    if expected.fabric_by_host and not events and not doubts:
        return not_applicable(SXID, reading, _NO_SXID, f"in the log of the host: {RUN_BY_HOST}")
    fatal = [f"SXid {one['number']}{_times(one)}: {quoted(one['text'])}" for one in events if one["fatal"]]
    if fatal:
        return failed(SXID, reading, _NO_SXID, _some(fatal), _REMEDY_SXID)
    unclear = [f"SXid {one['number']}{_times(one)}: {quoted(one['text'])}" for one in events if one["fatal"] is None]
    why = _some([*unclear, *doubts]) or ("" if events else _cannot_show(reading, _LETS_SXID, "nvswitch"))
    if why:
        return could_not_check(SXID, reading, _NO_SXID, why, _REMEDY_LOG)
    notes = [f"SXid {one['number']}, not fatal{_times(one)}" for one in events]
    return passed(SXID, reading, _NO_SXID, _some(notes) or f"none in {_lines(reading.data['kernel_lines'])}")


def _mismatch(reading: Reading) -> list[Check]:
    """Report the driver's own messages that a program used a library of another release."""
    told = [one for one in reading.data.get("faults") or [] if one["what"] == MISMATCH]
    wanted = "module, library and tool have the same version"
    remedy = "reboot the host to load the installed module"
    return [failed("driver.match", reading, wanted, f"{quoted(one['text'])}{_times(one)}", remedy) for one in told]


# --- PCIe ------------------------------------------------------------------------------------------------------------


def _pcie(reading: Reading, expected: Expected) -> list[Check]:
    """Check PCIe links. They are reported once, at device discovery: a log that starts after boot proves nothing."""
    data = reading.data
    wrong: list[str] = []
    unclear = _doubts(reading, "pcie")
    for one in data.get("pcie") or []:
        if one["capable_gbit"] < _FAST_GBIT or _right_on_spark(one, expected):
            continue
        sentence = (
            f"{one['driver']} {one['bus']} has x{one['width']} at {one['gt_s']:g} GT/s of x{one['capable_width']} at "
            f"{one['capable_gt_s']:g} GT/s, limited at {one['at']}"
        )
        asleep = (
            one["width"] == one["capable_width"] and one["gt_s"] <= _IDLE_GT_S and not one["driver"].startswith("mlx")
        )
        (unclear if asleep else wrong).append(f"{sentence} (it may be saving power)" if asleep else sentence)
    if wrong:
        return [failed(PCIE, reading, _ALL_LANES, _some(wrong), _REMEDY_PCIE)]
    if unclear:
        return [could_not_check(PCIE, reading, _ALL_LANES, _some(unclear), "read pcie.link.gen.current under load")]
    if data.get("from_boot") and data.get("varied") and not data.get("filter"):
        return [passed(PCIE, reading, _ALL_LANES, "no link that is limited")]
    return []


def _right_on_spark(link: Mapping[str, Any], expected: Expected) -> bool:
    """Whether a limited link is normal: a function of a GB10's network card has, and needs, only four lanes."""
    full = link["width"] >= _SPARK_WIDTH and link["gt_s"] >= _SPARK_GT_S
    return expected.unified and full and link["driver"].startswith(("mlx5", "pci"))


# --- ports -----------------------------------------------------------------------------------------------------------


def _flaps(reading: Reading) -> list[Check]:
    data = reading.data
    ports: Mapping[str, Mapping[str, Any]] = data.get("ports") or {}
    wrong, notes = [], []
    for port, own in ports.items():
        lost = f"{port} lost its link {own['most_in_24_h']} time{'' if own['most_in_24_h'] == 1 else 's'}"
        if own["most_in_24_h"] > MOST_LOSSES_A_DAY:
            wrong.append(f"{lost} within 24 hours")
        elif own["ended_down"]:
            wrong.append(f"{lost} and is down at the end of the log")
        elif own["down"] and own["up"]:
            notes.append(lost)
    if wrong:
        return [failed(FLAPS, reading, _FEW_LOSSES, _some(wrong), _REMEDY_FLAPS)]
    if ports or (data.get("from_boot") and data.get("varied") and not data.get("filter")):
        return [passed(FLAPS, reading, _FEW_LOSSES, _some(notes) or "no port lost its link")]
    return []
