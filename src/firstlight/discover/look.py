# SPDX-License-Identifier: Apache-2.0
"""Inspect a node that accepts our login, with read-only commands."""

from __future__ import annotations

from dataclasses import replace

from firstlight.ssh.faults import NodeError, step_failed
from firstlight.ssh.session import Session

from .probe import ROOT_SCRIPT, SCRIPT, Machine, ProbeError, read_firmware, read_machine


def read_node(session: Session) -> Machine:
    """Return the node's description. The serial number requires root; without it, the number stays unknown."""
    try:
        machine = read_machine(session.run(SCRIPT).out)
        if machine.serial is None or machine.product is None:
            firmware = read_firmware(session.run_as_root(ROOT_SCRIPT).out)
            machine = replace(
                machine,
                serial=machine.serial or firmware["serial"],
                product=machine.product or firmware["product"],
            )
    except ProbeError as error:
        raise NodeError(step_failed("first look", str(error))) from None
    except NodeError as error:
        if error.fault.kind not in ("no-sudo", "sudo-password"):
            raise
    return machine
