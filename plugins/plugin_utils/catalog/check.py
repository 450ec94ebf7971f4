# SPDX-License-Identifier: Apache-2.0
"""Check a catalog for what an operator should fix: facts without a source, missing values and outdated entries.

The files are read leniently: an entry that the plan would reject becomes a finding and does not stop the check.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.envelopes import check_envelope
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import SCHEMA, check_fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prices import check_price
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prompts import FILE, check_prompts
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml

DAYS = 90
"""Age in days beyond which an entry is reported as outdated."""

UNREADABLE = "unreadable"
NO_SOURCE = "source"
NEEDED = "needed"
OLD = "age"
KINDS = (UNREADABLE, NO_SOURCE, NEEDED, OLD)
"""Kinds of findings, in display order."""

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One finding; `field` is empty if it concerns the entry as a whole."""

    kind: str
    entry: str
    """Path below the catalog, followed by the item's name if the file holds several."""
    field: str
    found: str
    remedy: str
    path: str
    """Path of the file."""

    def document(self) -> dict[str, str]:
        """Return the finding as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Need:
    """A field without whose value a run stops or skips a check."""

    field: str
    remedy: str
    applies: Callable[[Entry], bool] = lambda _: True
    empty: tuple[object, ...] = (None,)
    """Values that count as unknown."""


def _part(entry: Entry, name: str) -> Entry:
    value = entry.get(name)
    return value if isinstance(value, Mapping) else {}


def _installs(entry: Entry) -> bool:
    return _part(entry, "driver").get("policy") == "install"


NEEDS: Mapping[str, Sequence[Need]] = {
    "models": (
        Need("revision", "look up the commit, or set firstlight_model_revision in the inventory"),
        Need(
            "size_bytes",
            "add the size that the hub lists for the downloaded files: free space is not checked without it",
        ),
        Need("config", "add the keys of its config.json: whether it fits is not checked without them"),
    ),
    "stacks": (
        Need(
            "image.digest",
            "look up the digest where you pull it, or set firstlight_image in the inventory",
            lambda entry: isinstance(entry.get("image"), Mapping),
        ),
        Need(
            "image.size_bytes",
            "add its size on disk: free space is not checked without it",
            lambda entry: isinstance(entry.get("image"), Mapping),
            (None, 0),
        ),
        Need("venv.lock", "create a lock (docs/venv.md)", lambda entry: entry.get("runtime") == "venv"),
        Need("driver.packages.*", "add the exact version of each package", _installs),
        Need(
            "driver.fabric_manager.revision",
            "add the exact version of its package",
            lambda entry: _installs(entry) and bool(_part(_part(entry, "driver"), "fabric_manager")),
        ),
    ),
    "sources": (
        Need(
            "key",
            "add the key once its fingerprint is computed, or set key_file in firstlight_sources of the inventory",
            lambda entry: entry.get("kind") == "repository",
        ),
    ),
    "hardware": (
        Need("memory_mib", "add the value that nvidia-smi shows", lambda entry: entry.get("unified") is False),
        Need("os_visible_mib", "add MemTotal of such a host", lambda entry: entry.get("unified") is True),
    ),
}
"""Required values by kind of entry. Any other may be unknown: the plan and the checks report what they miss."""


def check_catalog(directories: Iterable[str | Path], today: dt.date, days: int = DAYS) -> tuple[list[Finding], int]:
    """Return the findings for these catalogs, earlier ones taking precedence, and the number of entries checked.

    An entry that an earlier catalog overrides is skipped: nothing reads it.
    """
    seen: set[str] = set()
    findings: list[Finding] = []
    for directory in map(Path, directories):
        if not directory.is_dir():
            findings.append(
                Finding(
                    UNREADABLE, ".", "", "there is no such directory", "name a catalog, or create it", str(directory)
                )
            )
            continue
        for name, path, entry, wrong in _entries(directory):
            if name in seen:
                continue
            seen.add(name)
            findings += _findings(name, path, entry, wrong, today, days)
    order = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(findings, key=lambda one: (one.path, one.entry, order[one.kind], one.field)), len(seen)


def _findings(
    name: str, path: Path, entry: Entry, wrong: Sequence[str], today: dt.date, days: int
) -> Iterator[Finding]:
    for problem in wrong:
        yield Finding(UNREADABLE, name, "", problem, "correct it: the plan refuses such a catalog", str(path))
    if wrong:
        return
    if not str(entry.get("source") or "").strip():
        yield Finding(NO_SOURCE, name, "source", "no source", "name the source of its facts", str(path))
    for field, why in sorted((entry.get("unverified") or {}).items()):
        yield Finding(
            NO_SOURCE, name, str(field), f"no source: {why}", "look it up, and remove it from the list", str(path)
        )
    for need in NEEDS.get(name.partition("/")[0], ()):
        if need.applies(entry):
            for field in _unknown(entry, need):
                yield Finding(NEEDED, name, field, "not known", need.remedy, str(path))
    yield from _age(name, path, entry, today, days)


def _age(name: str, path: Path, entry: Entry, today: dt.date, days: int) -> Iterator[Finding]:
    given = entry.get("date")
    try:
        date = given if isinstance(given, dt.date) else dt.date.fromisoformat(str(given))
    except ValueError:
        words = "no date" if given is None else f"{given!r} is not a date"
        yield Finding(
            NO_SOURCE, name, "date", words, "write when its facts were looked up, such as 2026-11-17", str(path)
        )
        return
    if date > today:
        yield Finding(
            NO_SOURCE, name, "date", f"{date} is in the future", "write when its facts were looked up", str(path)
        )
    elif (today - date).days > days:
        age = f"of {date}, {(today - date).days} days old"
        yield Finding(OLD, name, "date", age, "look up its facts again, and write the new date", str(path))


def _unknown(entry: Entry, need: Need) -> list[str]:
    """Return the fields of a need that are missing or unknown; a * stands for every name."""
    *above, last = need.field.split(".")
    part: Any = entry
    for name in above:
        part = part.get(name) if isinstance(part, Mapping) else None
    if last != "*":
        return [need.field] if not isinstance(part, Mapping) or part.get(last) in need.empty else []
    if not isinstance(part, Mapping) or not part:
        return [".".join(above)]
    return [".".join([*above, str(name)]) for name, value in part.items() if value in need.empty]


def _entries(directory: Path) -> Iterator[tuple[str, Path, Entry, list[str]]]:
    """Yield every entry of one catalog: name, file, content, and why it cannot be used."""
    for kind, schema in SCHEMA.items():
        for path in sorted((directory / kind).glob("*.yml")):
            entry, wrong = _read(path)
            # A missing source or date is reported separately, with its own remedy.
            known = {key: field for key, field in schema.items() if key not in ("source", "date")}
            others = {key: value for key, value in entry.items() if key not in ("source", "date")}
            yield f"{kind}/{path.stem}", path, entry, wrong or check_fields(others, known, path.name, "")
    for kind in ("rules", "ladders"):
        for path in sorted((directory / kind).glob("*.yml")):
            yield (f"{kind}/{path.stem}", path, *_read(path))
    engines = directory / "engines"
    for path in sorted({*engines.rglob("*.json"), *engines.glob("*.yml")}):
        yield (str(path.relative_to(directory).with_suffix("")), path, *_read(path))
    quality = directory / FILE
    if quality.is_file():
        entry, wrong = _read(quality)
        yield quality.stem, quality, entry, wrong or check_prompts(entry, quality.name)
    for listing in ("hazards", "workloads", "envelopes", "prices"):
        if (directory / f"{listing}.yml").is_file():
            yield from _listed(directory / f"{listing}.yml")


def _listed(path: Path) -> Iterator[tuple[str, Path, Entry, list[str]]]:
    """Yield the entries of a file that contains a list."""
    kind = path.stem
    found, wrong = _load(path)
    if not wrong and not isinstance(found, list):
        wrong = [f"it is not a list of {kind}"]
    if wrong:
        yield kind, path, {}, wrong
        return
    for number, item in enumerate(found):
        if isinstance(item, Mapping):
            check = {"envelopes": check_envelope, "prices": check_price}.get(kind)
            wrong = check(item, path.name) if check else []
            yield f"{kind}/{item.get('name') or number + 1}", path, item, wrong
        else:
            yield f"{kind}/{number + 1}", path, {}, ["it is not a mapping"]


def _read(path: Path) -> tuple[Entry, list[str]]:
    found, wrong = _load(path)
    if not wrong and not isinstance(found, Mapping):
        return {}, ["it is not a mapping"]
    return found, wrong


def _load(path: Path) -> tuple[Any, list[str]]:
    try:
        return (json.loads(path.read_text(encoding="utf-8")) if path.suffix == ".json" else load_yaml(path)), []
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        return {}, [f"it cannot be read: {' '.join(str(error).split())[:200]}"]
