# SPDX-License-Identifier: Apache-2.0
"""Select the files of a model's repository that an engine loads: many contain the same weights in several formats.

In each directory, the first format of the list that is present is selected, as engines do; other files known to be
weights are left out. Unknown files are always selected: an unneeded kilobyte costs nothing, a missing one prevents the
start.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from .model_files import INDEX_ENDING

KEYS = ("formats", "weights", "exclude", "include")
FORMAT_KEYS = ("name", "files", "except")


@dataclass(frozen=True)
class Format:
    """Weights in one format, as patterns of file names without the directory."""

    name: str
    files: tuple[str, ...]
    without: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether a file with this name belongs to the format."""
        return _is_like(name, self.files) and not _is_like(name, self.without)


@dataclass(frozen=True)
class Selection:
    """Which files of a repository to fetch; without formats and patterns, all of them."""

    formats: tuple[Format, ...] = ()
    """In the engine's order of preference."""
    weights: tuple[str, ...] = ()
    """Patterns of weight files, which are left out unless they belong to the selected format."""
    exclude: tuple[str, ...] = ()
    """Patterns of paths to leave out."""
    include: tuple[str, ...] = ()
    """Patterns of paths to fetch regardless of all other rules."""

    def has_weights(self, path: str) -> bool:
        """Whether a file is known to contain weights."""
        name = posixpath.basename(path)
        return _is_like(name, self.weights) or any(one.has(name) for one in self.formats)


def read_selection(given: Mapping[str, Any] | None) -> Selection:
    """Parse a selection from the plan. Raises ValueError if it is invalid."""
    if not given:
        return Selection()
    _check_keys(given, KEYS, "the selection of files")
    formats = given.get("formats") or []
    if not isinstance(formats, list) or not all(isinstance(one, Mapping) for one in formats):
        raise ValueError(f"formats is {formats!r}, expected a list of mappings with {', '.join(FORMAT_KEYS)}")
    found = []
    for one in formats:
        _check_keys(one, FORMAT_KEYS, "a format of weights")
        found.append(Format(str(one.get("name") or "?"), _patterns(one, "files"), _patterns(one, "except")))
        if not found[-1].files:
            raise ValueError(f"the format {found[-1].name} has no files, expected patterns of their names")
    return Selection(tuple(found), *(_patterns(given, key) for key in KEYS[1:]))


def select(paths: Iterable[str], selection: Selection) -> list[str]:
    """Return the selected files of a repository, sorted."""
    listed = sorted(set(paths))
    included = {path for path in listed if _is_like(path, selection.include)}
    left = [path for path in listed if path not in included and not _is_like(path, selection.exclude)]
    taken = set(included)
    for names in _by_directory(path for path in left if not path.endswith(INDEX_ENDING)).values():
        chosen = next((one for one in selection.formats if any(one.has(_name(path)) for path in names)), None)
        taken.update(
            path
            for path in names
            if not selection.formats or (chosen and chosen.has(_name(path))) or not selection.has_weights(path)
        )
    taken.update(path for path in left if path.endswith(INDEX_ENDING) and _is_used(path, listed, taken))
    return sorted(taken)


def check_selection(paths: Iterable[str], selection: Selection) -> list[str]:
    """Like `select`, but raises ValueError if a repository has weights, none of which the engine would load."""
    listed = list(paths)
    taken = select(listed, selection)
    weights = sorted(path for path in listed if selection.has_weights(path))
    if selection.formats and weights and not any(selection.has_weights(path) for path in taken):
        more = f" and {len(weights) - 3} more" if len(weights) > 3 else ""
        raise ValueError(
            f"the engine loads none of its weights ({', '.join(weights[:3])}{more}): expected files of the format "
            f"{' or '.join(one.name for one in selection.formats)}; choose another repository or load format, or name "
            "what to fetch in firstlight_model_files.include"
        )
    return taken


def files_lacking(selection: Selection, brought: Iterable[str], left_out: Iterable[str]) -> list[str]:
    """Return files that an earlier run left out and that are selected now."""
    there, out = set(brought), set(left_out)
    return [path for path in select(there | out, selection) if path in out] if out else []


def _is_used(index: str, listed: Iterable[str], taken: Iterable[str]) -> bool:
    """Whether an index belongs to selected shards: otherwise it would only list missing files."""
    stem, ending = posixpath.splitext(index.removesuffix(INDEX_ENDING))
    directory = posixpath.dirname(index)

    def shards(paths: Iterable[str]) -> bool:
        return any(
            path.startswith(stem) and path.endswith(ending) and posixpath.dirname(path) == directory for path in paths
        )

    return not shards(listed) or shards(taken)


def _by_directory(paths: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(posixpath.dirname(path), []).append(path)
    return found


def _name(path: str) -> str:
    return posixpath.basename(path)


def _is_like(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _check_keys(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    unknown = sorted(str(key) for key in given if key not in known)
    if unknown:
        raise ValueError(f"{what} has {', '.join(unknown)}, expected only {', '.join(known)}")


def _patterns(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key) or []
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise ValueError(f"{key} is {value!r}, expected a list of patterns such as '*.gguf'")
    return tuple(value)
