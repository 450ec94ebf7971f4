# SPDX-License-Identifier: Apache-2.0
"""Read the objects that Ansible passes to a callback (tasks, results, counters) without importing their classes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.blocks import COUNTERS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import text_lines


def task_name(task: Any) -> str:
    """Return the task's name without the role's: the phase already shows the context."""
    return str(task.name or task.action)


def task_place(task: Any) -> str:
    """Return the file and line of a task, relative if it is below the current directory."""
    path = str(task.get_path() or "")
    here = os.getcwd() + os.sep
    return path.removeprefix(here)


def identify(result: Any) -> tuple[str, str, str]:
    """Return the host, the task's key and the task's templated name."""
    return result.host.get_name(), str(result.task._uuid), task_name(result.task)


def host_label(result: Any) -> str:
    """Return the host's name, with the delegate if the task is delegated."""
    host = str(result.host.get_name())
    delegate = delegated_to(result)
    return f"{host} -> {delegate}" if delegate else host


def delegated_to(result: Any) -> str | None:
    """Return the host that a task is delegated to; None if it is the task's own."""
    delegate = result.task.delegate_to
    return str(delegate) if delegate and delegate != str(result.host.get_name()) else None


def debug_lines(result: Any, hidden: Collection[str]) -> list[str]:
    """Return the output of a debug task: its message, or variables (except `hidden` ones) with their values."""
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
    """Return Ansible's counters under the names used in its recap."""
    return {name: int(summary["failures" if name == "failed" else name]) for name in COUNTERS}
