# SPDX-License-Identifier: Apache-2.0
"""Render the templates of this collection's roles on the controller, so that plan, role and verify share the bytes.

Templates contain loops and simple conditions only; Python makes the decisions and passes a flat mapping.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import command, plain, quote
from jinja2 import Environment, FileSystemLoader, StrictUndefined

ROLES = Path(__file__).absolute().parents[2] / "roles"
"""Symlinks are not resolved, so that linked and installed copies behave alike."""


def render(role: str, name: str, **values: Any) -> str:
    """Render `roles/<role>/templates/<name>.j2`. Raises ValueError for a value that would inject another line."""
    return _environment().get_template(f"{role}/templates/{name}.j2").render(values)


@functools.cache
def _environment() -> Environment:
    """Create the environment on first use."""
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
    """Reject values with line breaks: text after one would become a setting of its own."""
    if isinstance(value, str) and any(end in value.replace(" \\\n", "") for end in "\n\r\x00"):
        raise ValueError(f"{value[:80]!r} contains a line break, expected one line: remove it")
    return value


def _setting(text: str) -> str:
    """Quote for systemd settings other than commands, where a dollar sign is literal."""
    return quote(text).replace("$$", "$")
