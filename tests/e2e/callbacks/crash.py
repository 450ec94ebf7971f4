# SPDX-License-Identifier: Apache-2.0
"""Kills ansible-playbook, all of it, right after a host's journal has received a certain entry.

FIRSTLIGHT_CRASH_AFTER is the entry as `direction:state`; FIRSTLIGHT_CRASH_NOTE is where the killed run leaves the
host's name. What the run had written to hosts by then is all that the next run finds, as when a controller breaks down.
"""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: crash
type: aggregate
short_description: Die after an entry of a journal
description: For tests.
"""


def children(of: int) -> list[int]:
    """The processes that this one started."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = (directory / "stat").read_text().rsplit(")", 1)[1].split()[1]
        except OSError:
            continue
        if int(parent) == of:
            found.append(int(directory.name))
    return found


def crash(controller: int, host: str) -> NoReturn:
    """End the controller and its workers, without a chance to say or tidy up anything."""
    Path(os.environ["FIRSTLIGHT_CRASH_NOTE"]).write_text(host)
    os.kill(controller, signal.SIGSTOP)
    for worker in children(controller):
        if worker != os.getpid():
            os.kill(worker, signal.SIGKILL)
    os.kill(controller, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(1)


class CallbackModule(CallbackBase):
    """Watches what modules answer, in the workers, where an answer is known first."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "crash"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        wanted = os.environ["FIRSTLIGHT_CRASH_AFTER"]
        controller = os.getpid()
        execute = ActionBase._execute_module

        @functools.wraps(execute)
        def watched(action: Any, *arguments: Any, **named: Any) -> Any:
            result = execute(action, *arguments, **named)
            written = f"{result.get('direction')}:{result.get('state')}"
            if result.get("changed") and written == wanted:
                crash(controller, str(action._play_context.remote_addr))
            return result

        mock.patch.object(ActionBase, "_execute_module", watched).start()
