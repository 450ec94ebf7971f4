# SPDX-License-Identifier: Apache-2.0
"""Read the settings that TensorRT-LLM accepts in the file of `trtllm-serve --config`, from the source of their classes.

They are pydantic models in a package that only imports on a GPU host, so the source is read without running it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .annotations import Annotations, Unreadable
from .click_source import commit_of, read_files
from .expressions import Source, UnresolvedError
from .releases import ReleasesError

ROOT = "TorchLlmArgs"
"""The class of the file with the PyTorch backend, the only one that is launched."""
FILES = (
    "tensorrt_llm/llmapi/llm_args.py",
    "tensorrt_llm/lora_helper.py",
    "tensorrt_llm/_torch/pyexecutor/model_loader.py",
)
WORDS = {
    ("KvCacheConfig", "dtype"): "_VALID_KV_CACHE_DTYPES",
    ("Nvfp4GemmConfig", "allowed_backends"): "valid_backends",
}
"""Keys that are plain strings in their class, with the constant the engine validates them against later."""
WIDER = {("KvCacheConfig", "dtype"): ["auto"]}
"""Values accepted in addition to that constant."""
NOTE = (
    "takes lists what a key may be: a kind, or words, list, map, object (a name under objects) or chosen_by (the key "
    "that says which object it is); a default that is an object of the engine is null"
)


def read_settings(git: Path, version: str) -> dict[str, Any]:
    """Return the settings at a release's tag in a clone."""
    commit = commit_of(git, version)
    return {**read_sources(read_files(git, commit, FILES), version), "commit": commit}


def read_sources(files: Mapping[str, str], version: str) -> dict[str, Any]:
    """Return the settings, given the source files by path."""
    source = Source(files.values())
    annotations = Annotations(source.trees)
    if ROOT not in annotations.classes:
        raise ReleasesError(f"tensorrt-llm {version} has no class {ROOT} in {FILES[0]}: its files were reordered")
    objects: dict[str, Any] = {}
    waiting = [ROOT]
    while waiting:
        name = waiting.pop()
        if name not in objects:
            objects[name] = _object(name, annotations, source)
            waiting += sorted(_named(objects[name]["keys"].values()))
    return {"root": ROOT, "objects": {name: objects[name] for name in sorted(objects)}}


def _object(name: str, annotations: Annotations, source: Source) -> dict[str, Any]:
    """Return the keys of a class and its ancestors; its own are added last and take precedence."""
    keys: dict[str, Any] = {}
    for owner in annotations.lineage(name):
        for node in annotations.classes[owner].body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=key), annotation=kind, value=value):
                    if not key.startswith("_") and "ClassVar" not in ast.unparse(kind):
                        keys |= _keys(owner, key, kind, value, annotations, source)
    return {"keys": {key: keys[key] for key in sorted(keys)}}


def _keys(
    owner: str, key: str, kind: ast.expr, value: ast.expr | None, annotations: Annotations, source: Source
) -> dict[str, Any]:
    """Return a key's description under each of its names."""
    given = {}
    default: Any = value
    if isinstance(value, ast.Call):
        given = {keyword.arg: keyword.value for keyword in value.keywords if keyword.arg}
        default = given.get("default", value.args[0] if value.args else None)
        if isinstance(default, ast.Constant) and default.value is ...:
            default = None
    try:
        takes = annotations.takes(kind)
    except Unreadable as error:
        raise ReleasesError(f"{owner}.{key} is {error}, which the reader does not know") from error
    words = _words(owner, key, given, source)
    described = {
        "takes": [_with_words(one, words) for one in takes] if words else takes,
        "above": _literal(given.get("gt"), source),
        "default": _literal(default, source),
        "required": default is None and "default_factory" not in given,
        "status": _literal(given.get("status"), source),
    }
    alias = given.get("validation_alias") or given.get("alias")
    names = [str(one.value) for one in ast.walk(alias) if isinstance(one, ast.Constant)] if alias else [key]
    return {name: described for name in names if not name.startswith("_")}


def _words(owner: str, key: str, given: Mapping[str, ast.expr], source: Source) -> list[str]:
    if "choices" in given:
        return sorted(str(word) for word in source.value(given["choices"]))
    constant = WORDS.get((owner, key))
    if constant is None:
        return []
    for tree in source.trees:
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == constant:
                    return sorted({*(str(word) for word in source.value(value)), *WIDER.get((owner, key), [])})
    raise ReleasesError(f"the words of {owner}.{key} are no longer in {constant}: find where the engine defines them")


def _with_words(one: Any, words: list[str]) -> Any:
    if isinstance(one, dict) and "list" in one:
        return {"list": [_with_words(item, words) for item in one["list"]]}
    return {"words": words} if one == "str" else one


def _literal(node: ast.expr | None, source: Source) -> Any:
    try:
        value = None if node is None else source.value(node)
    except UnresolvedError:
        return None
    return value if isinstance(value, (str, int, float, bool, list)) else None


def _named(found: Iterable[Any]) -> set[str]:
    """Return the names of all objects that a description refers to."""
    names: set[str] = set()
    for one in found:
        match one:
            case {"object": str(name)}:
                names.add(name)
            case {"chosen_by": _, "of": dict(choice)}:
                names.update(choice.values())
            case dict():
                names |= _named(one.values())
            case list():
                names |= _named(one)
    return names


def make_settings(found: Mapping[str, Any], version: str, date: str) -> dict[str, Any]:
    """Return the settings as a document for the catalog."""
    return {
        "engine": "tensorrt-llm",
        "version": version,
        "source": f"{', '.join(FILES)} of TensorRT-LLM, tag v{version}, commit {found['commit']}, "
        "read without running them",
        "date": date,
        "generator": "python -m scripts.schemas tensorrt-llm-settings (settings_source.py)",
        "note": NOTE,
        "root": found["root"],
        "objects": found["objects"],
    }
