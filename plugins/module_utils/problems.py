# SPDX-License-Identifier: Apache-2.0
"""Errors that a host reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class SettingsError(Exception):
    """Why the requested settings cannot be applied, in one message."""


def tried(action: Callable[..., None], *arguments: Any) -> list[str]:
    """Run the action and return its error message, if any, so that the remaining work can still be done."""
    try:
        action(*arguments)
    except SettingsError as error:
        return [str(error)]
    return []
