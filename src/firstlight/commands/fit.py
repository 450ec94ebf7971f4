# SPDX-License-Identifier: Apache-2.0
"""`firstlight fit`: compute whether a model fits, from its config.json and the GPU memory; contacts no host."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import load as catalogs
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import find_entry, suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.budget import Fit, fit, refused_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.legality import check_parallel
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.parallel_sizes import legal_tensor_parallel
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.fields import plain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.files import parse_config_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

from firstlight.errors import DONE, REFUSED, UsageError
from firstlight.fit_view import show
from firstlight.options import add_json_option, count


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "fit",
        description="Computes weights, activations and cache of a model on GPUs of the catalog. Nothing is contacted. "
        "Exits 0, or 2 when it does not fit or is refused. "
        "Example: firstlight fit qwen3-235b-a22b-fp8 --hardware h100-sxm-8 --gpus 4 --max-model-len 32k",
    )
    parser.set_defaults(run=run)
    add_model_options(parser)
    parser.add_argument(
        "--pipeline-parallel", type=int, default=1, help="pipeline parallel size (default: %(default)s)"
    )
    parser.add_argument(
        "--max-model-len",
        type=count,
        metavar="TOKENS",
        help="length of a request, such as 32768, 128k (128,000) or 128K (131,072) (default: the model's own maximum)",
    )
    add_json_option(parser)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options shared by all commands about a model on GPUs."""
    parser.add_argument("model", metavar="MODEL", help="name in the catalog, or path of a config.json or its directory")
    parser.add_argument("--hardware", required=True, help="profile in the catalog, such as h100-sxm-8 or gb10")
    parser.add_argument(
        "--gpus", type=int, required=True, help="number of all GPUs; more than a host has means several hosts"
    )
    parser.add_argument(
        "--tensor-parallel", "--tp", type=int, help="tensor parallel size (default: the largest legal one)"
    )
    parser.add_argument(
        "--kv-cache-dtype", default="auto", help="type of the cache, such as fp8 (default: the model's)"
    )
    parser.add_argument(
        "--dtype",
        help="type of unquantised weights, as the engine's --dtype (default: the model's, 16 bits for float32)",
    )
    parser.add_argument("--gpu-memory-utilization", type=float, help="share of the memory for the engine")
    parser.add_argument("--max-num-batched-tokens", type=count, help="tokens per step (default: vLLM's)")
    parser.add_argument("--max-num-seqs", type=count, help="requests at a time (default: vLLM's)")
    parser.add_argument(
        "--catalog", action="append", default=[], metavar="DIRECTORY", help="a site's catalog, searched first"
    )


@dataclass(frozen=True)
class Answer:
    """The result: the document for programs, and additional values for the terminal output."""

    document: dict[str, Any]
    model: str
    hardware: str
    gpus: int
    variants: tuple[str, ...] = ()
    """Other models of the catalog with the same dimensions that would fit."""


def run(arguments: argparse.Namespace) -> int:
    """Compute and print the result; the exit status says whether the model fits."""
    answer = compute(load_catalog(arguments), arguments)
    if arguments.json:
        sys.stdout.write(json.dumps(answer.document, indent=2) + "\n")
    else:
        show(answer.document, model=answer.model, hardware=answer.hardware, gpus=answer.gpus, variants=answer.variants)
    return DONE if answer.document["fits"] else REFUSED


def load_catalog(arguments: argparse.Namespace) -> catalogs.Catalog:
    """Load the built-in catalog, overridden by the site's own."""
    try:
        return catalogs.load_catalog([*arguments.catalog, catalogs.BUILT_IN])
    except catalogs.CatalogError as error:
        raise UsageError(f"the catalog cannot be used:\n{error}") from error


def find_asked(
    catalog: catalogs.Catalog, arguments: argparse.Namespace, errors: PlanErrors
) -> tuple[ModelShape | None, Mapping[str, Any] | None, str, list[str]]:
    """Return the requested model's shape, the hardware profile, the model's name, and notes about it."""
    notes = []
    config, name, note = find_config(arguments.model, catalog["models"], errors)
    if note:
        notes.append(note)
    hardware = catalog["hardware"].get(arguments.hardware)
    if hardware is None:
        errors.add(
            "fit.hardware",
            f"the hardware is {plain(arguments.hardware, 80)}",
            "hardware is a profile of the catalog",
            _meant(arguments.hardware, catalog["hardware"]),
        )
    shape = None if config is None else read_config(config, name, errors)
    return shape, hardware, name, notes


def compute(catalog: catalogs.Catalog, arguments: argparse.Namespace) -> Answer:
    """Return what fits; problems are listed in the document's `errors`."""
    errors = PlanErrors()
    shape, hardware, name, notes = find_asked(catalog, arguments, errors)
    if shape is None or hardware is None:
        document = refused_document(errors, notes)
        return Answer(document, name, arguments.hardware, arguments.gpus)
    document = find_fit(shape, hardware, arguments, errors).document()
    document["notes"] = [*notes, *document["notes"]]
    variants = () if document["fits"] else _variants(catalog, name, shape, hardware, arguments)
    return Answer(document, name, arguments.hardware, arguments.gpus, variants)


def find_config(
    model: str, models: Mapping[str, Mapping[str, Any]], errors: PlanErrors
) -> tuple[Mapping[str, Any] | None, str, str | None]:
    """Return the model's config, its name, and a note about the name."""
    entry, note = find_entry(models, model)
    if entry is not None:
        return _config_of(entry, errors), str(entry["name"]), note
    path = Path(model)
    try:
        is_path = path.exists()
    except (OSError, ValueError):
        is_path = False
    if is_path or model.endswith(".json"):
        config = parse_config_file(path, errors)
        return config, _name_of(path), None
    errors.add(
        "fit.model",
        f"there is neither a model nor a file {plain(model, 120)}",
        "a model is a name in the catalog or the path of a config.json",
        _meant(model, models),
    )
    return None, plain(model, 80), None


def _name_of(path: Path) -> str:
    """Return a name for a model known only by its path: its directory, or the stem of a file not named config.json."""
    try:
        whole = path.resolve()
    except (OSError, RuntimeError):  # a symlink loop
        whole = path.absolute()
    if path.is_dir():
        return plain(whole.name, 80)
    return plain(whole.parent.name if path.name == "config.json" else path.stem, 80)


def _meant(name: str, entries: Mapping[str, object]) -> str:
    hint = suggest(name[:80], sorted(entries))
    otherwise = "Or" if hint.endswith("?") else "; or"
    return f"{hint}{' ' if hint.endswith('?') else ''}{otherwise} name a directory that has it with --catalog"


def _config_of(entry: Mapping[str, Any], errors: PlanErrors) -> Mapping[str, Any] | None:
    if entry.get("config") is None:
        errors.add(
            "model.config",
            f"the catalog entry {entry['name']} has no config",
            "memory is computed from the keys of a model's config.json",
            f"give the path of the config.json of {entry['repository']} instead of the name",
        )
    return entry.get("config")


def default_tensor_parallel(shape: ModelShape, gpus: int, pipeline_parallel: int) -> int:
    """Return the number of GPUs of a stage if that is legal, else the largest legal size that divides it."""
    stage = max(1, min(gpus, 65_536) // max(1, pipeline_parallel))
    return max((one for one in legal_tensor_parallel(shape, stage) if stage % one == 0), default=1)


def find_fit(
    shape: ModelShape,
    hardware: Mapping[str, Any],
    arguments: argparse.Namespace,
    errors: PlanErrors,
    speculative_tokens: int = 0,
) -> Fit:
    """Compute how the model fits on the GPUs, with all errors."""
    ranks = arguments.tensor_parallel
    if ranks is None:
        ranks = default_tensor_parallel(shape, arguments.gpus, arguments.pipeline_parallel)
    in_host = hardware["gpus"]
    own = PlanErrors()
    own.found.extend(errors.found)
    check_parallel(
        shape,
        tensor_parallel=ranks,
        pipeline_parallel=arguments.pipeline_parallel,
        gpus=arguments.gpus,
        gpus_per_host=in_host,
        hosts=-(-arguments.gpus // in_host) if arguments.gpus > 0 else None,
        speculative={"method": "mtp", "tokens": speculative_tokens} if speculative_tokens else None,
        errors=own,
    )
    return fit(
        shape,
        hardware,
        gpus=arguments.gpus,
        tensor_parallel=ranks,
        pipeline_parallel=arguments.pipeline_parallel,
        context=arguments.max_model_len,
        kv_dtype=arguments.kv_cache_dtype,
        dtype=arguments.dtype,
        utilisation=arguments.gpu_memory_utilization,
        max_num_batched_tokens=arguments.max_num_batched_tokens,
        max_num_seqs=arguments.max_num_seqs,
        speculative_tokens=speculative_tokens,
        errors=own,
    )


def _variants(
    catalog: catalogs.Catalog,
    name: str,
    shape: ModelShape,
    hardware: Mapping[str, Any],
    arguments: argparse.Namespace,
) -> tuple[str, ...]:
    """Return the names of catalog models with the same dimensions but another quantisation that fit these GPUs."""
    fitting = []
    for other, entry in sorted(catalog["models"].items()):
        if other == name or not entry.get("config"):
            continue
        found = read_config(entry["config"], other, PlanErrors())
        if found is None or (found.layers, found.hidden, found.vocab) != (shape.layers, shape.hidden, shape.vocab):
            continue
        settings = argparse.Namespace(**{**vars(arguments), "tensor_parallel": None})
        if find_fit(found, hardware, settings, PlanErrors()).fits:
            fitting.append(other)
    return tuple(fitting)
