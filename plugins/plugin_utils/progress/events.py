# SPDX-License-Identifier: Apache-2.0
"""Reads the objects Ansible hands to a callback: tasks, results, counters. It knows their shape, and imports none."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.blocks import COUNTERS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import text_lines


def task_name(task: Any) -> str:
    """The name without the role in front of it: the phase already says where we are."""
    return str(task.name or task.action)


def task_place(task: Any) -> str:
    """The file and line of a task, relative where it is below the current directory."""
    path = str(task.get_path() or "")
    here = os.getcwd() + os.sep
    return path.removeprefix(here)


def identify(result: Any) -> tuple[str, str, str]:
    """Host, task key and the task's templated name."""
    return result.host.get_name(), str(result.task._uuid), task_name(result.task)


def host_label(result: Any) -> str:
    """The host and, when the work is done elsewhere, where."""
    host = str(result.host.get_name())
    delegate = delegated_to(result)
    return f"{host} -> {delegate}" if delegate else host


def delegated_to(result: Any) -> str | None:
    """The host that did the work when it was not the task's own."""
    delegate = result.task.delegate_to
    return str(delegate) if delegate and delegate != str(result.host.get_name()) else None


def debug_lines(result: Any, hidden: Collection[str]) -> list[str]:
    """What a debug task was asked to say: its message, or the variable (none of the `hidden`) and its value."""
    outcome = dict(result.result)
    if "results" in outcome:
        return []
    if "msg" in outcome:
        return text_lines(outcome["msg"])
    lines: list[str] = []
    for name, value in outcome.items():
        if not name.startswith("_") and name not in {*hidden, "warnings", "deprecations", "item"}:
            first, *rest = text_lines(value) or [""]
            lines += [f"{name}: {first}", *rest]
    return lines


def counters(summary: Mapping[str, int]) -> dict[str, int]:
    """Ansible's counters under the names its recap uses."""
    return {name: int(summary["failures" if name == "failed" else name]) for name in COUNTERS}
