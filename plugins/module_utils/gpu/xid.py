# SPDX-License-Identifier: Apache-2.0
"""The Xid numbers that the NVIDIA driver writes to the kernel log: what each means, and what to do about it.

There are three severities. `fatal`: a GPU, its memory, its firmware or a link is faulty, and somebody must act before
work goes on. `watch`: the event was handled, and matters only if it recurs. `application`: a program did something
wrong, or something was done to it; this is not a hardware fault. The numbers are from NVIDIA's list of Xid errors;
which of them take a host out of service is what operators of large clusters agree on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FATAL, WATCH, APPLICATION = ("fatal", "watch", "application")

RESET = "stop what uses the GPU, reset it (`nvidia-smi --gpu-reset -i N`) or reboot, and read the log again"
REBOOT = "take the host out of service and reboot it with the power off in between; have the GPU serviced if it returns"
SERVICE = "take the host out of service, reset the GPU, run `dcgmi diag -r 3`, and have the GPU replaced if it fails"
REMAP = "stop what uses the GPU and reset it, so that the spare memory takes its place"
GSP = "take the host out of service and reboot it; if it recurs, move to another release of the driver"
LINK = "reset the GPUs of the host, or reboot it, and check the links (`nvidia-smi nvlink -s`, `nvidia-smi nvlink -e`)"
POWER = "check the power cables and the cooling of the GPU"
PROGRAM = "check the program that ran on the GPU at that time"
LOOK = "watch for recurrence; if it recurs, run `dcgmi diag -r 3`"


@dataclass(frozen=True)
class Xid:
    """The meaning, severity and remedy of one Xid number."""

    name: str
    severity: str
    remedy: str


def _same(numbers: range | tuple[int, ...], name: str, severity: str, remedy: str) -> dict[int, Xid]:
    return {number: Xid(name, severity, remedy) for number in numbers}


XIDS: dict[int, Xid] = {
    **_same((13,), "an exception in a program on the GPU", APPLICATION, PROGRAM),
    **_same((31,), "a program used memory that is not its own", APPLICATION, PROGRAM),
    **_same((43,), "a program's work was stopped after a fault of its own", APPLICATION, PROGRAM),
    **_same((45,), "a program's work was removed, after another fault or at its end", APPLICATION, PROGRAM),
    **_same((8, 32, 37, 38, 44, 60), "a fault in the work a program gave to the GPU", APPLICATION, PROGRAM),
    **_same((39, 40, 41, 70, 71, 72, 75, 76, 77, 85), "a copy engine's error", APPLICATION, PROGRAM),
    **_same(range(126, 136), "a copy engine's error", APPLICATION, PROGRAM),
    **_same((42, 47, 82, 83, 84, 86, 88, 89, 139, 142), "a video or image engine's error", APPLICATION, PROGRAM),
    **_same(range(96, 106), "a video or image engine's error", APPLICATION, PROGRAM),
    **_same((108, 137), "a program used memory of another GPU that it may not use", APPLICATION, PROGRAM),
    **_same((106, 107), "a test message", APPLICATION, PROGRAM),
    **_same((141,), "a fault in work that was handed over directly", APPLICATION, PROGRAM),
    **_same((61,), "a breakpoint in the power management (PMU) firmware", WATCH, LOOK),
    **_same((66, 67), "a wrong access by a program's context", WATCH, LOOK),
    **_same((78,), "a virtual GPU could not start", WATCH, "install the same release of the driver in host and guest"),
    **_same((93,), "the InfoROM was written more often than planned", WATCH, LOOK),
    **_same(
        (94,),
        "a contained memory error, which hit one program only",
        WATCH,
        "reset the GPU when it is idle, and watch it",
    ),
    **_same((121,), "an error between processor and GPU that was corrected", WATCH, LOOK),
    **_same((152, 153, 159, 160, 161, 162, 163, 164, 165, 166, 170), "an event that the driver handled", WATCH, LOOK),
    **_same((46,), "the GPU stopped working", FATAL, RESET),
    **_same((48,), "a double-bit memory error, which cannot be corrected", FATAL, SERVICE),
    **_same((54,), "the power cables are not connected as they should be", FATAL, POWER),
    **_same((56, 57, 58), "a fault of the memory's or the display's interface", FATAL, SERVICE),
    **_same((62,), "the power management (PMU) firmware stopped", FATAL, RESET),
    **_same((63, 156), "a bad piece of memory was recorded; it is replaced at the next reset", FATAL, REMAP),
    **_same((64, 157), "a bad piece of memory could not be recorded or has no spare left", FATAL, SERVICE),
    **_same((65, 68, 73), "a video engine's fault", FATAL, RESET),
    **_same((69,), "an engine refused what it was given", FATAL, RESET),
    **_same((74,), "an NVLink error", FATAL, LINK),
    **_same((79,), "the GPU has fallen off the bus", FATAL, REBOOT),
    **_same((80, 81), "corrupted data reached the GPU", FATAL, SERVICE),
    **_same((92,), "many memory errors that were corrected", FATAL, SERVICE),
    **_same((95,), "an uncontained memory error, which hit all programs", FATAL, SERVICE),
    **_same((109,), "a context switch timed out", FATAL, RESET),
    **_same((110,), "a security fault", FATAL, RESET),
    **_same((119,), "the GPU's own processor (GSP) does not answer", FATAL, GSP),
    **_same((120,), "an error of the GPU's own processor (GSP)", FATAL, GSP),
    **_same((122, 123, 124, 125), "the board's flash or InfoROM cannot be read or written", FATAL, SERVICE),
    **_same((136,), "a link could not be trained", FATAL, LINK),
    **_same((140,), "a memory error that was not recovered from", FATAL, SERVICE),
    **_same((143,), "the GPU could not be initialised", FATAL, RESET),
    **_same(range(144, 151), "an NVLink error", FATAL, LINK),
    **_same((151,), "keys of confidential computing could not be changed", FATAL, "restart the virtual machine"),
    **_same((154,), "the driver asks for a reset or a reboot", FATAL, RESET),
    **_same((155,), "a link was taken down by software", FATAL, LINK),
    **_same((158,), "a fatal timeout of the GPU", FATAL, RESET),
    **_same((167,), "the GPU's PCIe link did not answer", FATAL, REBOOT),
    **_same((168,), "the GPU has less memory than it should have", FATAL, SERVICE),
    **_same((169,), "the security processor stopped", FATAL, RESET),
    **_same((171, 172), "a memory error that cannot be corrected", FATAL, SERVICE),
    **_same((177,), "a bank of memory was replaced", WATCH, LOOK),
}

_NOT_FATAL = re.compile(r"\bnon-?fatal\b", re.IGNORECASE)
_RECOVERY = re.compile(r"\bto\s+0x[0-9a-f]+\s*\((?P<action>[^()]*)\)", re.IGNORECASE)
_NVLINK5 = range(144, 151)
_RECOVERY_CHANGED = 154


def meaning(number: int, text: str = "") -> Xid | None:
    """Return the meaning of a log line with this number, or None for an unknown number.

    The text of some lines states the severity, which then overrides that of the number.
    """
    known = XIDS.get(number)
    if known is None:
        return None
    if number in _NVLINK5 and _NOT_FATAL.search(text):
        return Xid("an NVLink error that is not fatal", WATCH, LOOK)
    if number == _RECOVERY_CHANGED:
        return _recovery(text) or known
    return known


def _recovery(text: str) -> Xid | None:
    """Return what the driver asks for in an Xid 154 line: the action to take about the preceding fault."""
    found = _RECOVERY.search(text)
    if not found:
        return None
    action = " ".join(found["action"].split())
    if action.lower() == "none":
        return Xid("the driver no longer asks for any action", WATCH, LOOK)
    remedy = REBOOT if "reboot" in action.lower() else RESET
    return Xid(f'the driver asks for "{action}"', FATAL, remedy)
