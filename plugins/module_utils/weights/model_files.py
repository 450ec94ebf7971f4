# SPDX-License-Identifier: Apache-2.0
"""What a model's own files say of its completeness where no hub lists them: an index's shards, a shard's tensors."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

INDEX_ENDING = ".index.json"
LONGEST_HEADER = 100_000_000
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def missing_shards(index_path: str, text: str, paths: Iterable[str]) -> list[str]:
    """Files that an index names and that are not there. Raises ValueError when it is no index."""
    try:
        weight_map = json.loads(text)["weight_map"]
        named = {posixpath.join(posixpath.dirname(index_path), str(name)) for name in weight_map.values()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{index_path} is no index of weights, expected JSON with weight_map") from error
    return sorted(named - set(paths))


def is_weights(path: str) -> bool:
    """Whether a file holds tensors, so that a directory with it may be a model."""
    return path.endswith(WEIGHTS)


def header_length(first: bytes) -> int:
    """The length of a safetensors header from the file's first eight bytes. Raises ValueError when it cannot be one."""
    length = int.from_bytes(first[:8], "little")
    if len(first) < 8 or not 2 <= length <= LONGEST_HEADER:
        raise ValueError("it does not begin as a safetensors file does")
    return length


def expected_size(length: int, header: bytes) -> int:
    """How many bytes a safetensors file with this header must have. Raises ValueError when it is no header."""
    try:
        entries: Mapping[str, Any] = json.loads(header)
        ends = [int(entry["data_offsets"][1]) for name, entry in entries.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError("its safetensors header cannot be read") from error
    return 8 + length + max(ends, default=0)
