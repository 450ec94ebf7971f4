# SPDX-License-Identifier: Apache-2.0
"""Check a model's completeness by its own files if no hub lists them: the shards of an index, the tensors of a
shard."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

INDEX_ENDING = ".index.json"
LONGEST_HEADER = 100_000_000
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def missing_shards(index_path: str, text: str, paths: Iterable[str]) -> list[str]:
    """Return files that an index names but that are missing. Raises ValueError if it is not an index."""
    try:
        weight_map = json.loads(text)["weight_map"]
        named = {posixpath.join(posixpath.dirname(index_path), str(name)) for name in weight_map.values()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{index_path} is not an index of weights, expected JSON with weight_map") from error
    return sorted(named - set(paths))


def is_weights(path: str) -> bool:
    """Whether a file contains tensors, so that its directory may be a model."""
    return path.endswith(WEIGHTS)


def header_length(first: bytes) -> int:
    """Parse the length of a safetensors header from the first eight bytes. Raises ValueError if it is invalid."""
    length = int.from_bytes(first[:8], "little")
    if len(first) < 8 or not 2 <= length <= LONGEST_HEADER:
        raise ValueError("it does not start like a safetensors file")
    return length


def expected_size(length: int, header: bytes) -> int:
    """Return the size that a safetensors file with this header must have. Raises ValueError if it is invalid."""
    try:
        entries: Mapping[str, Any] = json.loads(header)
        ends = [int(entry["data_offsets"][1]) for name, entry in entries.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError("its safetensors header cannot be read") from error
    return 8 + length + max(ends, default=0)
