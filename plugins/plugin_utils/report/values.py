# SPDX-License-Identifier: Apache-2.0
"""Read untrusted data from hosts, and format it as text. Pure functions.

A report combines the records of many programs and the answers of hosts, which may be broken or hostile: a value that is
missing or of the wrong type counts as absent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.redact_secrets import REMOVED, without_secrets

LONGEST = 400
"""Maximum length of one text in a report, in characters."""
_UUID = re.compile(r"(?<![\w-])(?:(?:GPU|MIG)-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])", re.IGNORECASE)
_PORT = re.compile(r"(?<![\w:])[0-9a-f]{2}(?::[0-9a-f]{2}){5,19}(?![\w:])", re.IGNORECASE)
"""Matches MAC addresses and longer hardware addresses of network ports."""
_SERIAL = re.compile(r"(?P<label>\bserial(?:[ _-]?(?:number|no\.?))?\W{1,3})(?P<value>[\w-]{6,40})", re.IGNORECASE)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> Sequence[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, (list, tuple)) else ()


def at(value: Any, *keys: str) -> Any:
    """Return the value at this path of keys; None if there is none."""
    for key in keys:
        value = mapping(value).get(key)
    return value


def number(value: Any) -> float | None:
    """Return the value as a float if it is a number, else None."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def words(value: Any) -> str:
    """Render any value as one line."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        told = ", ".join(f"{key} {words(one)}" for key, one in value.items())
    elif isinstance(value, (list, tuple)):
        told = ", ".join(words(one) for one in value)
    else:
        told = " ".join(str(value).split())
    return told if len(told) <= LONGEST else _cut(told)


def _cut(text: str) -> str:
    """Truncate a text without cutting through anything that is removed from complete texts."""
    text = without_secrets(text)
    if len(text) <= LONGEST:
        return text
    end = LONGEST - 1
    for pattern in (_UUID, _PORT, _SERIAL):
        end = next((found.start() for found in pattern.finditer(text) if found.start() < end < found.end()), end)
    return f"{text[:end]}…"


def cleaned(value: Any, *, serials: bool = False) -> Any:
    """Remove secrets and hardware addresses and, unless `serials` is set, serial numbers and UUIDs."""
    if isinstance(value, Mapping):
        return {str(key): cleaned(one, serials=serials) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(one, serials=serials) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON cannot represent it
    if not isinstance(value, str):
        return value
    text = _PORT.sub(REMOVED, without_secrets(value))
    if serials:
        return text
    return _SERIAL.sub(lambda found: found["label"] + REMOVED, _UUID.sub(REMOVED, text))
