# SPDX-License-Identifier: Apache-2.0
"""Read a checkpoint's quantization_config: how each kind of weight is stored, scales included."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.fields import Fields, plain, shown
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import Quantization, WeightFormat

FLOAT32 = WeightFormat("float32", 32, scale_bytes=0)
MXFP4 = WeightFormat("mxfp4", 4, group=32, scale_bytes=1, padded=True)
NVFP4 = WeightFormat("nvfp4", 4, group=16, scale_bytes=1)


def read_quantization(config: object, expert_dtype: str, problems: list[str], notes: list[str]) -> Quantization:
    """Read the quantisation of a checkpoint; an empty one without a quantization_config."""
    if config is None:
        return Quantization()
    if not isinstance(config, Mapping):
        problems.append(f"quantization_config is {shown(config)}, expected a mapping")
        return Quantization()
    fields = Fields(config)
    method = fields.word("quant_method").lower() or _guess(fields)
    ignored = tuple(
        name
        for key in ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers")
        for name in fields.words(key)
    )
    read = {
        "fp8": _fp8,
        "fbgemm_fp8": _channel_fp8,
        "compressed-tensors": _compressed_tensors,
        "awq": _grouped,
        "gptq": _grouped,
        "auto-round": _grouped,
        "auto_round": _grouped,
        "mxfp4": _mxfp4,
        "modelopt": _modelopt,
        "modelopt_fp4": _modelopt,
        "bitsandbytes": _bitsandbytes,
    }.get(method)
    if read is None:
        notes.append(
            f"the quantisation method {plain(method) or 'without a name'} is not known: the weights are counted "
            "as unquantised; the real ones are smaller"
        )
        return Quantization(method=method or None, ignored=ignored)
    linear, experts = read(fields)
    problems += fields.wrong
    if expert_dtype == "fp4":
        experts = MXFP4
    scheme = config.get("kv_cache_scheme")
    kv_cache = "fp8" if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8 else None
    return Quantization(
        method=method,
        block=linear.block if linear else None,
        group=linear.group if linear else None,
        linear=linear,
        experts=experts,
        ignored=ignored,
        kv_cache=kv_cache,
    )


def _guess(fields: Fields) -> str:
    """Guess the method: some exporters only name the algorithm."""
    if fields.has("quant_algo"):
        return "modelopt"
    return "bitsandbytes" if fields.has("load_in_4bit", "load_in_8bit") else ""


Formats = tuple[WeightFormat | None, WeightFormat | None]


def _both(fmt: WeightFormat) -> Formats:
    return fmt, fmt


def _block(fields: Fields, key: str) -> tuple[int, int] | None:
    sizes = fields.numbers(key, least=1)
    if sizes is None:
        return None
    if len(sizes) != 2:
        fields.wrong.append(f"{key} has {len(sizes)} items, expected two: outputs and inputs of a block")
        return None
    return sizes[0], sizes[1]


def _fp8(fields: Fields) -> Formats:
    block = _block(fields, "weight_block_size")
    return _both(WeightFormat("fp8", 8, block=block))


def _channel_fp8(fields: Fields) -> Formats:  # noqa: ARG001 - one signature for every method
    return _both(WeightFormat("fp8", 8, per_channel=True))


def _grouped(fields: Fields) -> Formats:
    """AWQ and GPTQ: integers in groups of inputs, with half-precision scales and packed zero points."""
    bits = fields.number("bits", "w_bit", "num_bits") or 4
    size = fields.values.get("group_size", fields.values.get("q_group_size", 128))
    if size == -1:
        return _both(WeightFormat(f"int{bits}", bits, per_channel=True, scale_bytes=2))
    group = Fields({"group_size": size}).number("group_size")
    if group is None:
        fields.wrong.append(f"group_size is {shown(size)}, expected a whole number, or -1 for whole channels")
        group = 128
    zero = 0 if fields.values.get("sym") is True else bits
    return _both(WeightFormat(f"int{bits}", bits, group=group, scale_bytes=2, zero_bits=zero))


def _mxfp4(fields: Fields) -> Formats:  # noqa: ARG001 - one signature for every method
    return None, MXFP4


def _modelopt(fields: Fields) -> Formats:
    algorithm = fields.word("quant_algo").upper()
    nested = fields.values.get("quantization")
    if not algorithm and isinstance(nested, Mapping):
        algorithm = Fields(nested).word("quant_algo").upper()
    if "FP4" in algorithm:
        return _both(NVFP4)
    if "INT8" in algorithm:
        return _both(WeightFormat("int8", 8, per_channel=True))
    if algorithm.startswith(("W4A", "INT4")):
        return _both(WeightFormat("int4", 4, group=128, scale_bytes=2))
    return _both(WeightFormat("fp8", 8))


def _bitsandbytes(fields: Fields) -> Formats:
    if fields.values.get("load_in_8bit") is True:
        return _both(WeightFormat("int8", 8, per_channel=True))
    return _both(WeightFormat("nf4", 4, group=64, scale_bytes=1))


def _compressed_tensors(fields: Fields) -> Formats:
    """Read the first group of a compressed-tensors config; its targets are taken to be the linear layers."""
    groups = fields.values.get("config_groups")
    weights: Any = None
    if isinstance(groups, Mapping):
        for group in list(groups.values())[:64]:
            if isinstance(group, Mapping) and isinstance(group.get("weights"), Mapping):
                weights = group["weights"]
                break
    if weights is None:
        fields.wrong.append("quantization_config has no config_groups with weights, expected at least one")
        return None, None
    inner = Fields(weights)
    bits = inner.number("num_bits") or 8
    strategy = inner.word("strategy", "tensor")
    kind = "fp" if inner.word("type", "float") == "float" else "int"
    name = f"{kind}{bits}"
    if strategy == "block":
        fmt = WeightFormat(name, bits, block=_block(inner, "block_structure") or (128, 128))
    elif strategy in ("group", "tensor_group"):
        group_size = inner.number("group_size") or 128
        if kind == "fp" and bits == 4:
            fmt = WeightFormat(name, bits, group=group_size, scale_bytes=1)
        else:
            zero = 0 if weights.get("symmetric") is not False else bits
            fmt = WeightFormat(name, bits, group=group_size, scale_bytes=2, zero_bits=zero)
    else:
        fmt = WeightFormat(name, bits, per_channel=strategy == "channel")
    fields.wrong += inner.wrong
    return _both(fmt)


class Ignored:
    """The modules that stay unquantised, from lists that may be long or hostile.

    Plain names are looked up; patterns are few, and a regular expression that could run long is not tried.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        listed = [one for one in patterns if len(one) <= _LONGEST]
        self.plain = {one for one in listed if not one.startswith("re:") and "*" not in one}
        self.globs = [one for one in listed if not one.startswith("re:") and "*" in one][:_MOST]
        self.expressions = [_compile(one[3:]) for one in listed if one.startswith("re:")][:_MOST]

    def __contains__(self, name: object) -> bool:
        """Whether this module, a module that contains it, or a trailing part of its name is listed."""
        text = str(name)
        parts = text.split(".")
        ends = {".".join(parts[start:]) for start in range(len(parts))}
        starts = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        return (
            not self.plain.isdisjoint(ends | starts)
            or any(fnmatch.fnmatchcase(text, one) or fnmatch.fnmatchcase(text, one + ".*") for one in self.globs)
            or any(one is not None and one.match(text) is not None for one in self.expressions)
        )


_LONGEST = 200
_MOST = 256
_REPEATED_GROUP = re.compile(r"\)[*+{?]")
_REPEATS = re.compile(r"[*+{]")


def _compile(expression: str) -> re.Pattern[str] | None:
    """Compile a regular expression, unless it is invalid or nests repeats, which can run forever on any name."""
    if _REPEATED_GROUP.search(expression) or len(_REPEATS.findall(expression)) > 4:
        return None
    try:
        return re.compile(expression)
    except (re.error, OverflowError, RecursionError):
        return None
