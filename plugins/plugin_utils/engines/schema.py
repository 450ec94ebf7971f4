# SPDX-License-Identifier: Apache-2.0
"""What the argument parser of a pinned engine takes, as data: catalog/engines/, made by scripts.schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.versions import is_older
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.ranges import Meaningful, load_ranges, plain

__all__ = [
    "ENGINES",
    "EngineSchema",
    "Flag",
    "available",
    "engine_name",
    "is_later",
    "load_schema",
    "parse_schema",
]

ENGINES = BUILT_IN / "engines"
"""The collection's own schemas; not resolved, so that links and an installed copy look alike."""
FILE = re.compile(r"(?P<engine>[a-z][a-z0-9-]*)-(?P<version>\d[A-Za-z0-9.]*)\.json")
LARGEST = 8 << 20  # bytes; the largest real schema has 0.15 MB
ALIASES = dict.fromkeys(("trtllm", "trt-llm", "trtllm-serve", "tensorrtllm", "tensorrt"), "tensorrt-llm")


def engine_name(name: str) -> str:
    """The catalog's name of an engine that people write in many ways: vLLM, TensorRT-LLM, tensorrt_llm, trtllm."""
    folded = name.strip().lower().replace("_", "-")
    return ALIASES.get(folded, folded)


def is_later(version: str, other: str) -> bool:
    """Whether a release came after another."""
    return is_older(other, version)


@dataclass(frozen=True)
class Flag:
    """One flag; the fields are those of the file (docs/engines.md says what each means)."""

    names: tuple[str, ...]
    type: str
    nargs: int | str | None
    choices: tuple[str | int, ...] | None
    values: tuple[str, ...] | None
    also: frozenset[str]
    keys: tuple[str, ...] | None
    units: Mapping[str, int] | None
    decimals: tuple[str, ...] | None
    default: Any
    negatable: bool
    required: bool
    repeatable: bool
    since: str | None
    deprecated: str | None
    help: str

    @property
    def name(self) -> str:
        """The name messages use."""
        return self.names[0]


@dataclass(frozen=True)
class EngineSchema:
    """All flags of one version of one engine, and the habits of its parser."""

    engine: str
    version: str
    source: str
    date: str
    positional: tuple[str, ...]
    flags: tuple[Flag, ...]
    by_name: Mapping[str, Flag]
    """Every word that stands for a flag, the negative ones too."""
    underscores: bool
    """Whether --max_num_seqs is --max-num-seqs to it."""
    abbreviations: bool
    """Whether it takes the beginning of a flag for the flag."""
    subkeys: bool
    """Whether --x.key VALUE is a key of the JSON of --x."""
    attached: Mapping[str, str]
    """Short words with their value attached that stand for a flag: -O3."""
    history: Mapping[str, Sequence[Sequence[str]]]
    """Flags of other releases: first and last release of each time they were there."""
    ranges: Mapping[str, Meaningful] = field(default_factory=dict)
    """What the number of a flag can mean, by the flag's first name."""

    @property
    def title(self) -> str:
        return f"{self.engine} {self.version}"


_TYPES = {"int", "float", "str", "bool", "json", "size", "enum"}
_OF_FLAG: dict[str, tuple[type, ...]] = {
    "names": (list,),
    "type": (str,),
    "nargs": (int, str, type(None)),
    "choices": (list, type(None)),
    "values": (list, type(None)),
    "also": (list,),
    "keys": (list, type(None)),
    "units": (dict, type(None)),
    "decimals": (list, type(None)),
    "default": (object,),
    "negatable": (bool,),
    "required": (bool,),
    "repeatable": (bool,),
    "since": (str, type(None)),
    "deprecated": (str, type(None)),
    "help": (str,),
}


def _files(directories: Iterable[str | Path]) -> dict[tuple[str, str], Path]:
    """The schema file of each engine version; the earlier directory wins, as everywhere in the catalog.

    The directories are the catalogs' own `engines` directories.
    """
    found: dict[tuple[str, str], Path] = {}
    for directory in map(Path, directories):
        for path in sorted(directory.glob("*.json")):
            match = FILE.fullmatch(path.name)
            if match:
                found.setdefault((match["engine"], match["version"]), path)
    return found


def available(directories: Iterable[str | Path]) -> list[str]:
    """Engine versions that can be checked, as ENGINE==VERSION."""
    return [f"{engine}=={version}" for engine, version in sorted(_files(directories))]


def load_schema(directories: Iterable[str | Path], engine: str, version: str) -> EngineSchema | None:
    """The schema of an engine version, None when the catalog has none. Raises CatalogError for a broken file."""
    places = list(directories)
    path = _files(places).get((engine, version))
    if path is None:
        return None
    history = path.parent / "since" / f"{engine}.json"
    return parse_schema(_read(path), str(path), _read(history) if history.is_file() else None, load_ranges(places))


def _read(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST:
            raise CatalogError([f"engine schema {path} is larger than {LARGEST} bytes: generate it again"])
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, CatalogError):
            raise
        raise CatalogError([f"engine schema {path} cannot be read: {error}; generate it again"]) from error


def parse_schema(
    document: Any, path: str, history: Any = None, ranges: Mapping[str, Meaningful] | None = None
) -> EngineSchema:
    """A schema from its document. Raises CatalogError with all that is wrong."""
    problems = list(_problems(document))
    if problems:
        raise CatalogError([f"engine schema {path} {problem}: generate it again" for problem in problems])
    flags = tuple(_flag(flag) for flag in document["flags"])
    parser = document["parser"]
    return EngineSchema(
        engine=document["engine"],
        version=document["version"],
        source=document["source"],
        date=document["date"],
        positional=tuple(str(item["name"]) for item in document["positional"]),
        flags=flags,
        by_name=_index(flags),
        underscores=parser["underscores"],
        abbreviations=parser["abbreviations"],
        subkeys=parser["subkeys"],
        attached=dict(parser["attached"]),
        history=_history(history),
        ranges=_ranges(flags, ranges or {}),
    )


def _ranges(flags: Iterable[Flag], ranges: Mapping[str, Meaningful]) -> dict[str, Meaningful]:
    numbers = [flag for flag in flags if flag.type in {"int", "float", "size"}]
    return {flag.name: ranges[plain(name)] for flag in numbers for name in flag.names if plain(name) in ranges}


def _history(document: Any) -> dict[str, list[list[str]]]:
    """Lifetimes of flags; a file of another shape says nothing, because these only make messages better."""
    flags = document.get("flags") if isinstance(document, dict) else None
    if not isinstance(flags, dict):
        return {}
    return {
        flag: times
        for flag, times in flags.items()
        if isinstance(times, list) and times and all(isinstance(time, list) and len(time) == 2 for time in times)
    }


def _problems(document: Any) -> Iterable[str]:
    if not isinstance(document, dict):
        yield "is not a JSON object"
        return
    for key in ("engine", "version", "source", "date"):
        if not isinstance(document.get(key), str):
            yield f"lacks the text {key}"
    parser = document.get("parser")
    wanted = {"underscores": bool, "abbreviations": bool, "subkeys": bool, "attached": dict}
    if not isinstance(parser, dict) or not all(isinstance(parser.get(key), kind) for key, kind in wanted.items()):
        yield f"lacks the object parser with {', '.join(wanted)}"
    positional = document.get("positional")
    if not isinstance(positional, list) or not all(isinstance(item, dict) and "name" in item for item in positional):
        yield "lacks the list positional"
    if not isinstance(document.get("flags"), list):
        yield "lacks the list flags"
        return
    for number, flag in enumerate(document["flags"]):
        if (problem := _flag_problem(flag)) is not None:
            yield f"has flags[{number}] with {problem}"


def _flag_problem(flag: Any) -> str | None:
    if not isinstance(flag, dict):
        return "no object"
    for key, kinds in _OF_FLAG.items():
        if key not in flag or not isinstance(flag[key], kinds):
            return f"a wrong or missing {key}"
    if not flag["names"] or not all(isinstance(name, str) and name.startswith("-") for name in flag["names"]):
        return "names that are no flags"
    if flag["type"] not in _TYPES:
        return f"an unknown type {flag['type']!r}"
    if flag["type"] == "enum" and not flag["choices"]:
        return "a choice of nothing"
    if flag["type"] == "size" and not flag["units"]:
        return "a size without units"
    return None


def _flag(document: Mapping[str, Any]) -> Flag:
    content = {one.name: document[one.name] for one in fields(Flag)}
    for key in ("names", "choices", "values", "keys", "decimals"):
        content[key] = None if content[key] is None else tuple(content[key])
    return Flag(**{**content, "also": frozenset(content["also"])})


def _index(flags: Iterable[Flag]) -> dict[str, Flag]:
    index: dict[str, Flag] = {}
    for flag in flags:
        for name in flag.names:
            index[name] = flag
            if flag.negatable and name.startswith("--"):
                index.setdefault(f"--no-{name[2:]}", flag)
    return index
