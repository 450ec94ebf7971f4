# SPDX-License-Identifier: Apache-2.0
"""Words that a flag of a schema takes, and words that it does not: to compare a schema with the parser it describes."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema, Flag

WRONG = {"int": "1.5x", "float": "half", "size": "8q", "enum": "no-such-choice", "json": "{not json"}

SPECIAL = {"--lora-modules": "name=path"}
"""Flags of type text whose parser looks into the text."""
FILES = {"--config"}
"""Flags whose parser opens the file they name."""


def good_value(flag: Flag) -> str:
    """A value the flag takes."""
    if flag.choices:
        return str(flag.choices[0])
    match flag.type:
        case "int":
            return "2"
        case "float":
            return "0.5"
        case "size":
            return f"8{next(iter(flag.units or {'': 1}))}"
        case "json":
            return "{}"
    return flag.values[0] if flag.values else "word"


def good_words(flag: Flag, name: str) -> list[str]:
    """The flag under one of its names, with as many values as it takes."""
    if flag.type == "bool":
        return [name]
    count = flag.nargs if isinstance(flag.nargs, int) else 2 if flag.nargs in {"+", "*"} else 1
    return [name, *[SPECIAL.get(flag.name) or good_value(flag)] * count]


def good_lines(schema: EngineSchema) -> list[list[str]]:
    """A command line for every name of every flag, the negative ones too."""
    names = sorted(name for name, flag in schema.by_name.items() if flag.name not in FILES)
    lines = [good_words(schema.by_name[name], name) for name in names]
    return [line if line[0] == "--model" else ["/model", *line] for line in lines]


def bad_lines(schema: EngineSchema) -> list[list[str]]:
    """Command lines that its parser refuses: wrong types, missing values, values for switches, flags there are not."""
    lines = [["--no-such-flag-at-all", "1"], ["--no-such-flag-at-all=1"], ["second-word"]]
    for flag in schema.flags:
        name = flag.name
        if flag.type == "bool":
            lines += [[f"{name}=true"], [f"{name}-x"]]
        elif flag.type in WRONG and "text" not in flag.also:
            lines.append([name, WRONG[flag.type]])
        if flag.type != "bool" and flag.nargs not in {"?", "*"}:
            lines.append([name])
        negative = f"--no-{name[2:]}"
        if not any(known.startswith(negative) for known in schema.by_name):
            lines.append([negative])
    return [["/model", *line] for line in lines]
