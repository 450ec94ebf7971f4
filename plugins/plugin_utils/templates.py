# SPDX-License-Identifier: Apache-2.0
"""Renders the templates of this collection's roles, on the controller, into the bytes that plan, role and verify share.

A template has loops and simple conditions; what to decide is decided in Python, which hands over a flat mapping.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import command, plain, quote
from jinja2 import Environment, FileSystemLoader, StrictUndefined

ROLES = Path(__file__).absolute().parents[2] / "roles"
"""Not resolved, so that links and an installed copy look alike."""


def render(role: str, name: str, **values: Any) -> str:
    """The file that `roles/<role>/templates/<name>.j2` makes of these values. Raises ValueError for a forged one."""
    return _environment().get_template(f"{role}/templates/{name}.j2").render(values)


@functools.cache
def _environment() -> Environment:
    """Made on first use, as templates are compiled on theirs."""
    environment = Environment(
        loader=FileSystemLoader(ROLES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - no HTML: what a file's own syntax needs escaped, the filters below escape
        auto_reload=False,
        finalize=_one_line,
    )
    environment.filters |= {"command": command, "plain": plain, "setting": _setting}
    return environment


def _one_line(value: Any) -> Any:
    """Whatever a template writes stays in its line: what follows an end of a line would be a setting of its own."""
    if isinstance(value, str) and any(end in value.replace(" \\\n", "") for end in "\n\r\x00"):
        raise ValueError(f"{value[:80]!r} has an end of a line in it, expected one line: take it out")
    return value


def _setting(text: str) -> str:
    """Quoted as systemd reads it outside of commands, where a dollar sign is a dollar sign."""
    return quote(text).replace("$$", "$")
