# SPDX-License-Identifier: Apache-2.0
"""Readable messages from Ansible results, without secrets, and remedies for unreachable hosts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import clean_name, fit, text_lines

MOST_LINES = 200
"""Maximum lines of one result, so that the output of one host does not hide that of the others."""
HIDDEN_MESSAGE = "The message is hidden because this task handles a secret (no_log)."

_REASON_PREFIX = re.compile(
    r"^(?:(?:task failed|connection failed|failed to connect to the host via [\w.]+|"
    r"data could not be sent to remote host \"[^\"]*\"[^:]*)\s*:\s*)+",
    re.IGNORECASE,
)


def is_hidden(result: Mapping[str, Any]) -> bool:
    """Return whether the result must not be shown (no_log)."""
    return "censored" in result or bool(result.get("_ansible_no_log"))


def message_lines(result: Mapping[str, Any], verbose: bool = False) -> list[str]:
    """Return the readable message of a failed result: never its arguments, and a fixed text if it is censored.

    The output of a command, for which the module has no message, is included only with -v.
    """
    if is_hidden(result):
        return [HIDDEN_MESSAGE]
    items = failed_items(result)
    lines = items or text_lines(result.get("msg"))
    late = result.get("timedout")
    if isinstance(late, Mapping):
        said = f"The host accepted the connection and then did nothing for {late.get('period')} s, expected an answer: "
        lines = [f"{said}look for a disk, a mount or a driver that hangs (dmesg), reboot it if needed, and run again."]
    rc = result.get("rc")
    if isinstance(rc, int) and rc != 0 and len(lines) <= 1 and "non-zero return code" in "".join(lines):
        hint = "" if verbose else "; run again with -v to see its output"
        lines = [f"The command ended with code {rc}{hint}."]
    if verbose:
        for stream in ("stderr", "stdout"):
            lines += [f"{stream}: {text}" for text in text_lines(result.get(stream))[-40:]]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"... and {len(lines) - MOST_LINES} more lines"]
    return lines or ["The module gave no message; run again with -vvv to see what it did."]


def failed_items(result: Mapping[str, Any]) -> list[str]:
    """Return the messages of the failed items of a loop, with their labels."""
    results = result.get("results")
    if not isinstance(results, list):
        return []
    lines: list[str] = []
    for number, item in enumerate(results, start=1):
        # Since ansible-core 2.21 a failed item no longer has `failed`, but still has `exception`.
        if not isinstance(item, Mapping) or not any(item.get(word) for word in ("failed", "unreachable", "exception")):
            continue
        first, *rest = message_lines(item)
        lines += [f"{item_label(item, number)}: {first}", *(f"  {text}" for text in rest)]
    return lines


def item_label(item: Mapping[str, Any], number: int) -> str:
    """Return the item's label, or its number for a structure, which may contain anything, including secrets."""
    if is_hidden(item):
        return f"item {number}"
    label = item.get("_ansible_item_label", item.get(str(item.get("ansible_loop_var", "item"))))
    if isinstance(label, str | int | float) and str(label).strip():
        return fit(clean_name(str(label)), 80)
    return f"item {number}"


def changed_items(result: Mapping[str, Any]) -> str:
    """Return how many items of a loop changed something; empty for a task without a loop."""
    results = result.get("results")
    if not isinstance(results, list) or not results:
        return ""
    changed = sum(1 for item in results if isinstance(item, Mapping) and item.get("changed"))
    return f"{changed} of {len(results)} items"


def unreachable_reason(message: Sequence[str]) -> tuple[str, ...]:
    """Return ssh's own message, without Ansible's prefixes."""
    lines = [_REASON_PREFIX.sub("", line).strip() for line in message]
    return tuple(f"Reason: {line}" if number == 0 else line for number, line in enumerate(filter(None, lines)))


def unreachable_check(reason: Sequence[str]) -> str:
    """Return what to check first, according to ssh's message: a host that refuses us is neither off nor unplugged."""
    text = " ".join(reason).lower()
    if "permission denied" in text or "too many authentication failures" in text:
        return "check that this user and key may log in there"
    if "host key verification failed" in text or "host identification has changed" in text:
        return "compare the host's key with known_hosts (a reinstalled host has a new one)"
    if "could not resolve" in text or "name or service not known" in text:
        return "check its address (ansible_host) in the inventory"
    return "check its power and cable"


def ssh_command(host: str, variables: Mapping[str, Any]) -> str:
    """Return the command that repeats Ansible's connection: same address, user, key, port and configuration."""
    argv = ["ssh"]
    for option, value in pairwise(shlex.split(str(variables.get("ansible_ssh_common_args") or ""))):
        if option == "-F":
            argv += ["-F", value]
    key = variables.get("ansible_ssh_private_key_file") or variables.get("ansible_private_key_file")
    if key:
        argv += ["-i", str(key)]
    port = variables.get("ansible_port")
    if port and str(port) != "22":
        argv += ["-p", str(port)]
    user = variables.get("ansible_user")
    address = str(variables.get("ansible_host") or host)
    argv.append(f"{user}@{address}" if user else address)
    return shlex.join(argv)
