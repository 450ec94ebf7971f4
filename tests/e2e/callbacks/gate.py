# SPDX-License-Identifier: Apache-2.0
"""Ends the gate of a re-pin once its host can no longer pass it, instead of after so many seconds.

FIRSTLIGHT_GATE_UNITS names the units that decide. When a host has finished booting, one of them has failed, and the
re-pin has had a try at mending that, the rest of `repin_gate_timeout` is over at once. A host that is merely slow has
all of its time.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from collections.abc import Mapping
from typing import Any
from unittest import mock

from ansible.plugins.callback import CallbackBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.mover import Mover, UnreachableError

DOCUMENTATION = """
name: gate
type: aggregate
short_description: End a gate that cannot be passed any more
description: For tests.
"""
FAILED = "failed"


def condition(units: str) -> str:
    """A command that prints `failed` where the host has booted without one of these units."""
    names = " ".join(map(shlex.quote, units.split()))
    booted = "systemctl is-system-running | grep -qx -e running -e degraded"
    return f"if {booted} && systemctl is-failed -q {names}; then echo {FAILED}; fi"


class CallbackModule(CallbackBase):
    """Gives the re-pin another clock while it looks at a host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gate"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        asked = condition(os.environ["FIRSTLIGHT_GATE_UNITS"])
        original = Mover._look

        @functools.wraps(original)
        def look(mover: Mover, way: str) -> tuple[bool, list[str]]:
            hands: Any = mover.hands
            observe, now = hands.observe, hands.now
            seen: list[bool] = []

            def observed(desired: Mapping[str, Any]) -> Any:
                found = observe(desired)
                with contextlib.suppress(UnreachableError):
                    seen.append(hands.action.ask(asked) == FAILED)
                return found

            def clock() -> float:
                over = len(seen) > 1 and all(seen[-2:])
                return float(now()) + (mover.request.gate_timeout + 1 if over else 0)

            with mock.patch.object(hands, "observe", observed), mock.patch.object(hands, "now", clock):
                return original(mover, way)

        mock.patch.object(Mover, "_look", look).start()
