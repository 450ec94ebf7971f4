# SPDX-License-Identifier: Apache-2.0
"""The stand-in fabric manager: fails under the same conditions as the real one, and otherwise keeps running."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from .machine import (
    FABRIC_CONFIGURED,
    SHARE,
    DescriptionError,
    fault_of_release,
    load_machine,
    read_driver,
    read_json,
    root,
)

VERSION = f"{SHARE}/nvidia/fabricmanager.json"
CONFIGURED = (
    "Successfully configured all the available NVSwitches to route GPU NVLink traffic. "
    "NVLink Peer-to-Peer support will be enabled once the GPUs are successfully registered with "
    "the NVLink fabric."
)
NOTHING_TO_DO = (
    "request to query NVSwitch device information from NVSwitch driver failed with error:"
    "WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
)


def refusal(base: Path, version: str) -> str | None:
    """Return why a fabric manager of this version cannot run on this machine, or None if it can."""
    driver = read_driver(base)
    if driver.loaded is None:
        return "failed to initialize NVML: driver not loaded"
    if driver.loaded != version:
        return (
            f"fabric manager NVIDIA GPU driver interface version {version} "
            f"doesn't match with driver version {driver.loaded}"
        )
    machine = load_machine(base)
    if machine is None or not machine.has_nvswitch:
        return NOTHING_TO_DO
    if fault_of_release(base, "fabric_manager_broken", version) is not None:
        return "failed to initialize Fabric Manager: NVSwitch device initialization failed, see the kernel's log"
    return None


def main(arguments: Sequence[str], base: Path | None = None) -> int:
    """Check the machine, notify systemd, and wait for a signal to stop."""
    base = base or root()
    try:
        version = str(read_json(base / VERSION)["version"])
        if "-v" in arguments or "--version" in arguments:
            print(f"Fabric Manager version is : {version}")
            return 0
        reason = refusal(base, version)
    except DescriptionError as error:
        reason = str(error)
    if reason:
        print(reason, file=sys.stderr, flush=True)
        return 1
    marker = base / FABRIC_CONFIGURED
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(version + "\n", encoding="utf-8")
    print("Connected to 1 node.", flush=True)
    print(CONFIGURED, flush=True)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    _notify("READY=1")
    while not stopped.wait(1):
        if fault_of_release(base, "fabric_manager_dead", version) is not None:
            os.kill(os.getpid(), signal.SIGKILL)  # nothing is cleaned up, so the driver behaves as if it were alive
    return 0


def _notify(state: str) -> None:
    """Notify systemd of the successful start, so that `systemctl start` fails otherwise."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.connect("\0" + address[1:] if address.startswith("@") else address)
        link.send(state.encode())
