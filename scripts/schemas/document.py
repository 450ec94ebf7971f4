# SPDX-License-Identifier: Apache-2.0
"""The common form of all schemas: complete fields, sorted, and independent of the generating machine."""

from __future__ import annotations

import getpass
import json
import math
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

FIELDS: dict[str, Any] = {
    "names": [],
    "type": "str",
    "nargs": None,
    "choices": None,
    "values": None,
    "also": [],
    "keys": None,
    "units": None,
    "decimals": None,
    "default": None,
    "negatable": False,
    "required": False,
    "repeatable": False,
    "since": None,
    "deprecated": None,
    "help": "",
}
"""Fields of a flag in order, with their defaults."""

PARSER: dict[str, Any] = {"underscores": False, "abbreviations": False, "subkeys": False, "attached": {}}
NOTE = (
    "help is the heading under which the engine lists the flag; a default that is an object of the engine or depends "
    "on the machine is null"
)


def make_document(
    *,
    engine: str,
    version: str,
    source: str,
    date: str,
    generator: str,
    arguments: Sequence[Mapping[str, Any]],
    parser: Mapping[str, Any],
    since: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the schema of one engine version, given the results of a reader."""
    options = [argument for argument in arguments if argument.get("names")]
    known = {name for option in options for name in option["names"]}
    return {
        "engine": engine,
        "version": version,
        "source": source,
        "date": date,
        "generator": generator,
        "note": NOTE,
        "parser": {name: parser.get(name, empty) for name, empty in PARSER.items()},
        "positional": [
            {"name": argument["name"], "type": argument.get("type", "str"), "nargs": argument.get("nargs")}
            for argument in arguments
            if not argument.get("names")
        ],
        "flags": sorted(
            (normal_flag(option, known, since or {}) for option in options), key=lambda flag: flag["names"]
        ),
    }


def normal_flag(option: Mapping[str, Any], known: set[str], since: Mapping[str, str]) -> dict[str, Any]:
    """Return a flag with all fields; its long name first, because messages show the first."""
    flag = {name: option.get(name, empty) for name, empty in FIELDS.items()}
    flag["names"] = sorted(dict.fromkeys(flag["names"]), key=lambda name: not name.startswith("--"))
    flag["also"] = sorted(set(flag["also"]))
    flag["choices"] = sort_words(flag["choices"])
    flag["values"] = sort_words(flag["values"])
    flag["keys"] = sort_words(flag["keys"])
    flag["default"] = without_machine(flag["default"])
    if flag["choices"] is not None:
        flag["type"] = "enum"
    if flag["nargs"] == 0 or flag["type"] == "bool":
        flag.update(type="bool", nargs=0)
    if flag["deprecated"] is not None:
        flag["deprecated"] = deprecation(flag["deprecated"], known)
    flag["since"] = earliest(flag["names"], since)
    return flag


def earliest(names: Sequence[str], since: Mapping[str, str]) -> str | None:
    """Return the first release with any of a flag's names."""
    return min((since[name] for name in names if name in since), key=release, default=None)


def sort_words(words: Sequence[Any] | None) -> list[Any] | None:
    """Sort numbers by value, followed by strings alphabetically."""
    if words is None:
        return None
    return sorted({json.dumps(word): word for word in words}.values(), key=lambda word: (isinstance(word, str), word))


def deprecation(words: str, known: set[str]) -> str:
    named = words.removeprefix("use ")
    if named.partition(".")[0] in known:
        return f"deprecated: use {named}"
    return "deprecated by the engine's own help"


def without_machine(value: Any) -> Any:
    """Return a default, or None if it depends on the generating machine, such as a home directory."""
    if isinstance(value, str):
        own = {socket.gethostname(), getpass.getuser(), str(Path.home())}
        return None if value.startswith(("/", "~")) or any(len(word) > 3 and word in value for word in own) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def release(version: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key: 0.9 before 0.10, a candidate before its release, a post-release after it."""
    parts = []
    for part in version.replace("rc", ".rc").replace("..", ".").split("."):
        digits = "".join(character for character in part if character.isdigit())
        rank = 0 if part.startswith("rc") else 2 if part.startswith("post") else 1 if part.isdigit() else 0
        parts.append((rank, int(digits or 0), part))
    return (*parts, (1, 0, ""))


def write_document(
    document: Mapping[str, Any], directory: Path, rendered: Callable[[Mapping[str, Any]], str] | None = None
) -> Path:
    """Write the document to the catalog; the old date is kept if nothing else changed."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{document['engine']}-{document['version']}.json"
    as_text = rendered or render
    text = as_text(document)
    if path.is_file():
        old = json.loads(path.read_text(encoding="utf-8"))
        if {**old, "date": ""} == {**document, "date": ""}:
            text = as_text({**document, "date": old["date"]})
    path.write_text(text, encoding="utf-8")
    return path


def render(document: Mapping[str, Any]) -> str:
    """Render for readable diffs: the head indented, one flag per line."""
    head = {key: value for key, value in document.items() if key != "flags"}
    lines = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
    flags = ",\n".join("    " + json.dumps(flag, ensure_ascii=False) for flag in document["flags"])
    return f'{lines},\n  "flags": [\n{flags}\n  ]\n}}\n'


def render_settings(document: Mapping[str, Any]) -> str:
    """Render the settings of a file likewise: one key per line."""
    head = {key: value for key, value in document.items() if key != "objects"}
    lines = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
    objects = ",\n".join(
        f'    {json.dumps(name)}: {{"keys": {{\n'
        + ",\n".join(f"      {json.dumps(key)}: {json.dumps(one)}" for key, one in content["keys"].items())
        + "\n    }}"
        for name, content in document["objects"].items()
    )
    return f'{lines},\n  "objects": {{\n{objects}\n  }}\n}}\n'
