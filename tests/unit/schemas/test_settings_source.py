# SPDX-License-Identifier: Apache-2.0
"""The reader of TensorRT-LLM's settings classes, on a small sample of the same shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.schemas.document import render_settings, write_document
from scripts.schemas.releases import ReleasesError
from scripts.schemas.settings_source import FILES, make_settings, read_sources

ARGS = """
class StrictBaseModel(BaseModel): ...
class Format(Enum):
    AUTO = 0
    DUMMY = 1
class Sampler(StrEnum):
    torch = "Torch"
class KvCacheConfig(StrictBaseModel, PybindMirror):
    dtype: str = Field(default="auto", description="x")
    sizes: Optional[List[int]] = Field(default=None)
    wait: int = Field(default=1, gt=0, status="beta")
class Nvfp4GemmConfig(StrictBaseModel):
    allowed_backends: List[str] = Field(default=["a"])
    def check(self):
        valid_backends = {"a", "b"}
class Decoding(StrictBaseModel):
    length: Optional[int] = None
    model: Optional[Union[str, Path]] = Field(default=None, validation_alias=AliasChoices("model", "model_dir"))
    _private: bool = PrivateAttr(True)
    @classmethod
    def from_dict(cls, data: dict):
        kind = data.get("decoding_type")
        config_classes = {"MTP": MTP, "Medusa": Medusa}
class MTP(Decoding):
    decoding_type: ClassVar[str] = "MTP"
    layers: int = 1
class Medusa(Decoding):
    def supports_backend(self, backend):
        return backend not in ("pytorch", "_autodeploy")
Speculative: TypeAlias = Optional[Union[MTP, Medusa]]
class BaseLlmArgs(StrictBaseModel):
    model_config = {"extra": "forbid"}
    model: Union[str, Path] = Field(description="x")
    module: str = Field(..., description="x")
    tokenizer: Optional[Union[str, TokenizerBase]] = Field(default=None)
    kv_cache_config: KvCacheConfig = Field(default_factory=KvCacheConfig)
    gemm: Nvfp4GemmConfig = Field(default_factory=Nvfp4GemmConfig)
    speculative_config: Speculative = Field(default=None)
    load_format: Literal["auto"] = Field(default="auto")
    session: Optional[object] = Field(default=None, alias="_session")
    options: Optional[Dict[str, str]] = None
    kt: Optional[str] = Field(default="a", choices=["a", "b"])
class TorchLlmArgs(BaseLlmArgs):
    load_format: Union[str, Format] = Field(default=Format.AUTO)
    sampler: Union[str, Sampler] = Field(default=Sampler.torch)
"""
LOADER = '_VALID_KV_CACHE_DTYPES = ("fp8", "nvfp4")\n'


def read(args: str = ARGS, loader: str = LOADER) -> dict[str, Any]:
    return read_sources({FILES[0]: args, FILES[2]: loader}, "1.2.1")


def test_keys_of_a_class_and_of_those_it_comes_from() -> None:
    found = read()
    keys = found["objects"]["TorchLlmArgs"]["keys"]
    assert found["root"] == "TorchLlmArgs"
    assert {key: one["takes"] for key, one in keys.items()} == {
        "gemm": [{"object": "Nvfp4GemmConfig"}],
        "kt": [{"words": ["a", "b"]}, "null"],
        "kv_cache_config": [{"object": "KvCacheConfig"}],
        "load_format": [{"words": ["AUTO", "DUMMY"], "fold": True}],
        "model": ["str"],
        "module": ["str"],
        "options": [{"map": ["str"]}, "null"],
        "sampler": [{"words": ["Torch"]}],
        "speculative_config": [{"chosen_by": "decoding_type", "of": {"MTP": "MTP"}}, "null"],
        "tokenizer": ["str", "null"],
    }
    assert [key for key, one in keys.items() if one["required"]] == ["model", "module"]
    assert list(found["objects"]) == ["KvCacheConfig", "MTP", "Nvfp4GemmConfig", "TorchLlmArgs"]
    assert list(found["objects"]["MTP"]["keys"]) == ["layers", "length", "model", "model_dir"]


def test_words_that_are_compared_elsewhere() -> None:
    objects = read()["objects"]
    assert objects["KvCacheConfig"]["keys"]["dtype"]["takes"] == [{"words": ["auto", "fp8", "nvfp4"]}]
    assert (
        objects["KvCacheConfig"]["keys"]["wait"] | {"default": 1, "status": "beta", "above": 0}
        == (objects["KvCacheConfig"]["keys"]["wait"])
    )
    backends = objects["Nvfp4GemmConfig"]["keys"]["allowed_backends"]["takes"]
    assert backends == [{"list": [{"words": ["a", "b"]}]}]


@pytest.mark.parametrize(
    ("args", "loader", "told"),
    [
        ("class Other: ...", LOADER, "no class TorchLlmArgs"),
        (ARGS, "", "no longer in _VALID_KV_CACHE_DTYPES"),
        (ARGS.replace("length: Optional[int]", "length: Callable[[int], int]"), LOADER, "Callable"),
        (ARGS.replace("length: Optional[int]", "length: Stranger"), LOADER, "Decoding.length is Stranger"),
    ],
)
def test_a_release_that_was_rebuilt(args: str, loader: str, told: str) -> None:
    with pytest.raises(ReleasesError, match=told):
        read(args, loader)


def test_the_file_is_one_key_a_line_and_keeps_its_date(tmp_path: Path) -> None:
    document = make_settings({**read(), "commit": "abc"}, "1.2.1", "2026-11-16")
    path = write_document(document, tmp_path, render_settings)
    assert json.loads(path.read_text()) == document
    assert sum('"takes"' in line for line in path.read_text().splitlines()) == 18
    write_document({**document, "date": "2027-01-01"}, tmp_path, render_settings)
    assert json.loads(path.read_text())["date"] == "2026-11-16"
