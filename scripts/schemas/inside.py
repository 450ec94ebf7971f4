# SPDX-License-Identifier: Apache-2.0
"""Describe an engine's real argument parser as JSON; runs in the interpreter in which the engine is installed.

Stand-alone and limited to the standard library, because Firstlight is not available there. Accepted values are found by
probing the parser's own converter with samples, because a converter's name says little: some accept `8k` as a number,
and for some `None` is a special value.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import importlib
import json
import re
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Any

UNITS = ("k", "K", "m", "M", "g", "G", "t", "T", "Ki", "Mi", "Gi", "Ti")
NO_WORD = "no~such~word"
DEPRECATED = re.compile(r"(?i)(^|\W)(is deprecated|deprecated[:,.)\]]|^deprecated|has been deprecated)")
INSTEAD = re.compile(r"(?i)use\s+`*(--[a-z0-9][\w.-]*)")

# JSON arguments whose converter accepts any keys, with the class that later rejects unknown ones.
VLLM_JSON = {
    "--speculative-config": ("vllm.config", "SpeculativeConfig"),
    "--diffusion-config": ("vllm.config", "DiffusionConfig"),
    "--watermark-config": ("vllm.config.watermarking", "WatermarkConfig"),
}
# The class behind these accepts a backend's name in any case, and `auto` for none.
ANY_CASE = {"--attention-backend"}


def attempt(converter: Callable[[str], Any], word: str) -> tuple[bool, Any]:
    """Return whether a converter accepts a word, with the result (or the error text)."""
    try:
        return True, converter(word)
    except Exception as error:  # noqa: BLE001 a converter may raise anything, which argparse turns into an error
        return False, str(error)


def probe(converter: Callable[[str], Any] | None) -> tuple[str, list[str]]:
    """Probe a converter: return its type, and which other forms it accepts."""
    if converter is None or converter is str:
        return "str", []
    also = []
    taken, value = attempt(converter, "None")
    if taken and value is None:
        also.append("none")
    if attempt(converter, NO_WORD)[0]:
        if isinstance(attempt(converter, '{"a": 1}')[1], dict):
            return "json", [*also, "text"]
        return "str", [*also, "fold"] if attempt(converter, "A-B")[1] == "a_b" else also
    if attempt(converter, "[1]")[0] or attempt(converter, "{}")[0] or "parse_dataclass" in names_in(converter):
        invalid = "Invalid JSON" in str(attempt(converter, '{"zz": 1k}')[1])
        return "json", [*also, "suffix"] if keys_of(converter) is not None and not invalid else also
    if attempt(converter, "8k") == (True, 8000):
        return "size", [*also, "auto"] if attempt(converter, "auto")[0] else also
    if attempt(converter, "1.5")[0]:
        return "float", also
    return ("int", also) if attempt(converter, "12")[0] else ("str", also)


def units_of(converter: Callable[[str], Any]) -> tuple[dict[str, int], list[str]]:
    """Return the factor of each size suffix, and the suffixes that allow decimals, as engines differ about M."""
    worth = {unit: attempt(converter, f"1{unit}") for unit in UNITS}
    known = {unit: value for unit, (taken, value) in worth.items() if taken and isinstance(value, int)}
    return known, [unit for unit in known if attempt(converter, f"1.5{unit}")[0]]


def parts_of(converter: Any) -> Iterator[Any]:
    """Yield a converter and the converters it wraps."""
    yield converter
    for cell in getattr(converter, "__closure__", None) or ():
        if callable(cell.cell_contents) and cell.cell_contents is not converter:
            yield from parts_of(cell.cell_contents)


def names_in(converter: Any) -> set[str]:
    return {getattr(part, "__name__", "") for part in parts_of(converter)}


def keys_of(converter: Any) -> list[str] | None:
    """Return the allowed keys of a JSON argument whose converter builds a dataclass; None for others."""
    for part in parts_of(converter):
        for default in getattr(part, "__defaults__", None) or ():
            if isinstance(default, type) and dataclasses.is_dataclass(default):
                return field_names(default)
    return None


def field_names(kind: Any) -> list[str]:
    return sorted(field.name for field in dataclasses.fields(kind) if field.init and not field.name.startswith("_"))


def plain(value: Any) -> Any:
    """Convert a default to JSON; the engine's own objects have no meaning outside of it and become null."""
    if isinstance(value, enum.Enum):
        return plain(value.value if isinstance(value.value, (int, str)) else value.name)
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in sorted(value.items())}
    return (
        value if value is None or (isinstance(value, (bool, int, float, str)) and value != argparse.SUPPRESS) else None
    )


def describe(action: argparse.Action, group: str) -> dict[str, Any]:
    """Describe one argument as data."""
    negatable = isinstance(action, argparse.BooleanOptionalAction)
    negative = [f"--no-{name[2:]}" for name in action.option_strings if name.startswith("--")] if negatable else []
    kind, also = probe(action.type if callable(action.type) else None)
    choices = None if action.choices is None else [plain(choice) for choice in action.choices]
    if isinstance(action.choices, (set, frozenset, dict)):
        choices = sorted(choices or [])
    if choices and None in choices:
        choices, also = [choice for choice in choices if choice is not None], sorted({*also, "none"})
    if action.nargs == 0:
        kind = "bool"
    listed = re.findall(r"[^{},\[\]' ]+", str(action.metavar)) if str(action.metavar or "")[:1] in {"{", "["} else None
    units, decimals = units_of(action.type) if kind == "size" and callable(action.type) else (None, None)
    text = " ".join(str(action.help or "").split())
    instead = INSTEAD.search(text)
    deprecated = None
    if DEPRECATED.search(text) or "eprecated" in type(action).__name__:
        deprecated = f"use {instead.group(1).rstrip('.')}" if instead else ""
    return {
        "names": [name for name in action.option_strings if name not in negative],
        "name": action.dest,
        "type": kind,
        "nargs": action.nargs,
        "choices": choices,
        "values": listed,
        "also": also,
        "keys": keys_of(action.type) if kind == "json" else None,
        "units": units,
        "decimals": decimals,
        "default": plain(action.default),
        "negatable": negatable,
        "required": bool(action.required),
        "repeatable": isinstance(action, argparse._AppendAction),
        "deprecated": deprecated,
        "help": group,
    }


def describe_parser(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """Describe every argument except help."""
    titles = {id(action): str(group.title or "") for group in parser._action_groups for action in group._group_actions}
    return [
        describe(action, titles.get(id(action), ""))
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
    ]


def vllm() -> dict[str, Any]:
    """Describe `vllm serve` as on an NVIDIA host, including values that its parser accepts but the engine rejects
    later.
    """
    sys.argv = [sys.argv[0], "--help"]  # otherwise vLLM omits its help texts, and with them the deprecations
    platforms = importlib.import_module("vllm.platforms")
    platforms.current_platform.device_type = "cuda"  # one argument has the host's device name as a choice
    try:
        launchers = importlib.import_module("vllm.entrypoints.launchers.cli_args")
    except ImportError:
        launchers = importlib.import_module("vllm.entrypoints.openai.cli_args")
    flexible = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    arguments = describe_parser(launchers.make_arg_parser(flexible(prog="vllm serve")))
    values = vllm_values()
    for argument in arguments:
        for name in argument["names"]:
            argument["values"] = values.get(name, argument["values"])
            if name in ANY_CASE:
                argument["also"] += ["auto", "upper"]
            if argument["keys"] is None and name in VLLM_JSON:
                module, kind = VLLM_JSON[name]
                argument["keys"] = field_names(getattr(importlib.import_module(module), kind))
    return {
        "version": re.sub(r"\+.*", "", str(importlib.import_module("vllm").__version__)),
        "parser": {
            "underscores": True,
            "abbreviations": True,
            "subkeys": True,
            "attached": {"-O": "--optimization-level"},
        },
        "arguments": arguments,
    }


def vllm_values() -> dict[str, list[str]]:
    """Return the values that vLLM knows for arguments whose parser accepts any."""

    def find(module: str, name: str) -> Any:
        return getattr(importlib.import_module(module), name)

    backends = sorted(find("vllm.v1.attention.backends.registry", "AttentionBackendEnum").__members__)
    return {
        "--tool-call-parser": sorted(find("vllm.tool_parsers", "ToolParserManager").list_registered()),
        "--reasoning-parser": sorted(find("vllm.reasoning", "ReasoningParserManager").list_registered()),
        "--quantization": sorted(find("vllm.model_executor.layers.quantization", "QUANTIZATION_METHODS")),
        "--attention-backend": backends,
        "--mm-encoder-attn-backend": backends,
        "--mamba-backend": sorted(item.value for item in find("vllm.config.mamba", "MambaBackendEnum")),
        "--load-format": sorted(typing.get_args(find("vllm.model_executor.model_loader", "LoadFormats"))),
        "--data-parallel-backend": sorted(typing.get_args(find("vllm.config.parallel", "DataParallelBackend"))),
    }


def sglang() -> dict[str, Any]:
    """Describe `sglang.launch_server`, whose parser validates all values itself."""
    parser = argparse.ArgumentParser()
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return {
        "version": str(importlib.import_module("sglang.version").__version__),
        "parser": {"underscores": False, "abbreviations": True, "subkeys": False, "attached": {}},
        "arguments": describe_parser(parser),
    }


def main() -> int:
    """Print the named engine's description as the last line; an engine may print others before it."""
    engine = {"vllm": vllm, "sglang": sglang}[sys.argv[1]]
    print("\n" + json.dumps(engine(), sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
