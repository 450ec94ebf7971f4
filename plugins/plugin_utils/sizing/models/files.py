# SPDX-License-Identifier: Apache-2.0
"""Read a config.json from disk, whatever the file may contain."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.fields import plain

LARGEST = 8 * 1024 * 1024
"""Largest config.json that is read, in bytes; real ones have some kilobytes."""


WEIGHTS = (".gguf", ".safetensors", ".bin", ".pt", ".pth", ".onnx")
"""Suffixes of weight files, which people name instead of a config.json."""


def parse_config_file(path: str | Path, errors: PlanErrors) -> Mapping[str, Any] | None:
    """Parse a config.json, or the config.json of a directory; None with an error if that fails."""
    file = Path(path)
    if file.suffix.lower() in WEIGHTS and not file.is_dir():
        _refuse_weights(file, errors)
        return None
    try:
        if file.is_dir():
            file = file / "config.json"
        document = _parse(file)
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        _refuse(file, _reason(error), errors)
        return None
    if not isinstance(document, dict):
        _refuse(file, f"it holds {type(document).__name__}, not an object", errors)
        return None
    return _with_quantization(document, file.with_name("hf_quant_config.json"))


def _with_quantization(document: dict[str, Any], beside: Path) -> dict[str, Any]:
    """Add the quantisation that ModelOpt writes into a separate file next to the config.json."""
    if document.get("quantization_config") is not None:
        return document
    try:
        found = _parse(beside)
    except (OSError, UnicodeDecodeError, ValueError, RecursionError):
        return document
    inner = found.get("quantization") if isinstance(found, dict) else None
    return (
        {**document, "quantization_config": {"quant_method": "modelopt", **inner}}
        if isinstance(inner, dict)
        else document
    )


def _parse(file: Path) -> Any:
    return json.loads(_read(file), parse_constant=_no_constant)


def _read(file: Path) -> str:
    # Not blocking: a named pipe in place of a file would otherwise wait forever.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if found.st_size > LARGEST:
            raise ValueError(f"it has {found.st_size} bytes, more than any real one, at most {LARGEST}")
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    return content.decode("utf-8-sig")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror}"
    return " ".join(str(error).split())[:200]


def _refuse(file: Path, reason: str, errors: PlanErrors) -> None:
    errors.add(
        "model.config",
        f"{plain(str(file), 300)}: {reason}",
        "a model is described by the config.json of its repository: one JSON object of some kilobytes",
        f"fetch {plain(file.name)} from the model's repository again, or name a model of the catalog",
    )


def _refuse_weights(file: Path, errors: PlanErrors) -> None:
    """Refuse a weight file: it does not describe the model here; for GGUF there is often no config.json at all."""
    if file.suffix.lower() == ".gguf":
        refuse_gguf(f"{plain(str(file), 300)} is a GGUF file", errors)
        return
    errors.add(
        "model.config",
        f"{plain(str(file), 300)} is a file of weights",
        "a model is described by the config.json of its repository: one JSON object of some kilobytes",
        f"name the config.json next to {plain(file.name)}, or the directory that holds both",
    )


def refuse_gguf(found: str, errors: PlanErrors) -> None:
    """Refuse a GGUF file, naming what to serve instead."""
    errors.add(
        "model.config",
        found,
        "GGUF is not supported: a model is planned from the config.json of a repository with safetensors",
        "name the repository that the GGUF was made from (base_model on its model card), or a variant of it in FP8, "
        "AWQ or GPTQ, with the config.json of that repository",
    )
