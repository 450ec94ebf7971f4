# SPDX-License-Identifier: Apache-2.0
"""The supervisor's state as series: who serves, who is lost, how often it started. Only the head reports a group."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import groups_of
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.recent import goodput, times_of

from .page import Family, family, gauge

PHASES = ("gathering", "starting", "warming", "serving", "stopping", "backing-off", "drained", "failed")
_LOST = 20.0


class Starts:
    """Counts the observed starts of each group: the supervisor labels each with an epoch, and counts none."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def see(self, group: str, epoch: str) -> int:
        """Return a group's starts since this program started; the first epoch found does not count."""
        known = self._last.get(group)
        if epoch and known is not None and epoch != known:
            self._count[group] = self._count.get(group, 0) + 1
        if epoch or known is None:
            self._last[group] = epoch
        return self._count.get(group, 0)


def group_families(
    config: Mapping[str, Any], state: Mapping[str, Any], starts: Starts, targets: Mapping[str, float] | None = None
) -> list[Family]:
    """Series of the groups whose head is this node, and of its supervisor; `targets` are the service's."""
    node = str(config.get("node") or "")
    configured = {str(one.get("name")): one for one in config.get("groups") or () if isinstance(one, Mapping)}
    shown = {name: one for name, one in groups_of(state).items() if configured.get(name, {}).get("head") == node}
    written = _seconds(state.get("written_at"))
    families = [
        gauge(
            "firstlight_supervisor_connected",
            "Whether the supervisor of this node reaches the supervisor of the head.",
            [({}, float(bool(state.get("connected"))))],
        ),
        gauge(
            "firstlight_supervisor_written_timestamp_seconds",
            "When the supervisor last wrote its state.",
            [({}, written)] if written is not None else [],
        ),
        gauge(
            "firstlight_group_phase",
            "The phase of a group: 1 for the one it is in.",
            [
                ({"group": name, "phase": phase}, float(phase == one.get("phase")))
                for name, one in shown.items()
                for phase in dict.fromkeys([*PHASES, str(one.get("phase"))])
            ],
        ),
        gauge(
            "firstlight_group_serving",
            "Whether the group answers completions.",
            [({"group": name}, float(one.get("phase") == "serving")) for name, one in shown.items()],
        ),
        gauge(
            "firstlight_group_failed_starts",
            "Failed starts in a row.",
            [({"group": name}, _number(one.get("attempts"))) for name, one in shown.items()],
        ),
        family(
            "firstlight_group_starts_total",
            "counter",
            "Starts of the group that were seen since this program started.",
            [({"group": name}, starts.see(name, str(one.get("epoch") or ""))) for name, one in shown.items()],
        ),
        gauge(
            "firstlight_group_node_lost",
            "Whether the head does not hear from a node of the group.",
            [
                ({"group": name, "member": member}, float(lost))
                for name, one in shown.items()
                for member, lost in _lost(configured[name], one).items()
            ],
        ),
        gauge(
            "firstlight_group_answer_seconds",
            "How long the last completion that the supervisor requested took.",
            [
                ({"group": name}, float(seconds))
                for name, one in shown.items()
                if (seconds := _of(one, "probe").get("seconds")) is not None
            ],
        ),
        gauge(
            "firstlight_group_answered_timestamp_seconds",
            "When the supervisor got its last completion.",
            [
                ({"group": name}, at)
                for name, one in shown.items()
                if (at := _seconds(_of(one, "probe").get("answered_at"))) is not None
            ],
        ),
        gauge(
            "firstlight_group_goodput_ratio",
            "The share of the requests of the last minutes that met the targets.",
            [
                ({"group": name}, share)
                for name, one in shown.items()
                if (share := goodput(times_of([_of(_of(one, "load"), "recent")]), targets or {})) is not None
            ],
        ),
    ]
    return [one for one in families if one.lines]


def _lost(configured: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, bool]:
    """Every planned node of a group, and whether it has been silent for longer than the supervisor waits."""
    longest = _of(configured, "timing").get("heartbeat_timeout")
    limit = float(longest) if isinstance(longest, (int, float)) else _LOST
    heard = _of(shown, "nodes")
    lost = {}
    for node in _of(configured, "nodes"):
        ago = _of(heard, node).get("heard_seconds")
        lost[str(node)] = not isinstance(ago, (int, float)) or ago > limit
    return lost


def _of(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _seconds(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
