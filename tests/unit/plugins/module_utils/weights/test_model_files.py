# SPDX-License-Identifier: Apache-2.0
"""What a model's files say of each other."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.model_files import (
    expected_size,
    header_length,
    missing_shards,
)


def test_a_missing_shard_is_named() -> None:
    index = json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})
    assert missing_shards("sub/x.index.json", index, ["sub/one.safetensors"]) == ["sub/two.safetensors"]
    with pytest.raises(ValueError, match="not an index of weights"):
        missing_shards("x.index.json", "[]", [])


def test_a_shard_says_its_own_size() -> None:
    header = json.dumps({"__metadata__": {}, "t": {"data_offsets": [0, 40]}}).encode()
    length = header_length(len(header).to_bytes(8, "little"))
    assert expected_size(length, header) == 8 + len(header) + 40


@pytest.mark.parametrize("first", [b"", b"1234567", bytes(8), b"\xff" * 8])
def test_what_is_no_shard_is_refused(first: bytes) -> None:
    with pytest.raises(ValueError, match="does not start"):
        header_length(first)


@pytest.mark.parametrize("header", [b"", b"[]", b'{"t": 1}', b'{"t": {"data_offsets": []}}', b"\xff"])
def test_a_broken_header_is_refused(header: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        expected_size(len(header), header)
