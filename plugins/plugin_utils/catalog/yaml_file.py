# SPDX-License-Identifier: Apache-2.0
"""Load YAML files of the collection and the site safely, and with the faster C parser if it is available."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(path: Path) -> Any:
    """Parse a YAML file. Raises OSError, UnicodeDecodeError or yaml.YAMLError if it cannot be read or parsed."""
    return pickle.loads(_parsed(path.read_text(encoding="utf-8")))  # noqa: S301 - what this process has pickled


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> bytes:
    """Parse YAML and return the document pickled, so that each caller unpickles a copy of its own.

    Several plans in one process read the same catalog, and parsing it takes nearly half the time of a plan.
    """
    return pickle.dumps(yaml.load(text, Loader=_LOADER), pickle.HIGHEST_PROTOCOL)  # noqa: S506 - a safe loader, C or Python


def _load_list(path: Path) -> tuple[list[Any], list[str]]:
    """Return the entries of a file that contains a list, none if it does not exist, and why it cannot be used."""
    if not path.is_file():
        return [], []
    try:
        listed = load_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        return [], [f"{path} cannot be read: {' '.join(str(error).split())[:200]}"]
    if not isinstance(listed, list):
        return [], [f"{path} is not a list of {path.stem}: write it as in catalog/README.md"]
    return listed, []


def load_entries(
    directories: Iterable[str | Path], name: str, check: Callable[[object, str], list[str]]
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Return the entries of this file in all directories, the first of each name winning, and the problems found."""
    found: dict[str, Mapping[str, Any]] = {}
    problems: list[str] = []
    for path in (Path(directory) / name for directory in directories):
        listed, unusable = _load_list(path)
        problems += unusable
        for number, entry in enumerate(listed):
            wrong = check(entry, f"{path} item {number + 1}")
            problems += wrong
            if not wrong:
                found.setdefault(entry["name"], entry)
    return list(found.values()), problems
