# SPDX-License-Identifier: Apache-2.0
"""How a host says no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class SettingsError(Exception):
    """Why the settings cannot be as asked for, in one message."""


def tried(action: Callable[..., None], *arguments: Any) -> list[str]:
    """What the action complained of, if it did: other things may still have to be done."""
    try:
        action(*arguments)
    except SettingsError as error:
        return [str(error)]
    return []
