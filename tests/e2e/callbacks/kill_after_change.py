# SPDX-License-Identifier: Apache-2.0
"""Kills ansible-playbook right after the first change that a role makes on some host, as a closed laptop would.

FIRSTLIGHT_KILL_IN_ROLE is the role. What other hosts do in that task goes on without anybody to tell.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: kill_after_change
type: aggregate
short_description: Die after the first change of a role
description: For tests.
"""


class CallbackModule(CallbackBase):
    """Looks at every result in the controller's own process."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kill_after_change"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        role = result.task._role
        wanted = os.environ["FIRSTLIGHT_KILL_IN_ROLE"]
        if role is not None and role.get_name().endswith(wanted) and result.result.get("changed"):
            os.kill(os.getpid(), signal.SIGKILL)
