# SPDX-License-Identifier: Apache-2.0
"""Check an engine's settings file against the classes that read it, before the engine itself refuses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.nearest import nearest_word
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.ranges import Meaningful, plain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.settings_kinds import (
    is_inner,
    is_plain,
    is_word,
    words_of,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.settings_schema import Key, SettingsSchema
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import SECRET, listed, show
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors

ERRORS: dict[str, str] = {
    "settings.unknown": "TensorRT-LLM exits at a key of its settings file that it does not know, after its container "
    "and its ranks were started. Every key is compared with the classes of the pinned version.",
    "settings.value": "A value of the wrong kind, or a word the engine does not know, makes it exit; some are only "
    "refused after the weights were loaded.",
    "settings.planned": "The settings file silently overrides the command line, so the file must not set what the plan "
    "sets there.",
    "settings.twice": "A setting that is given twice misleads its reader, even if both are equal.",
}

PLANNED = {
    "model": "firstlight_model",
    "backend": "the launch: the PyTorch backend is the only one that is launched",
    "tensor_parallel_size": "firstlight_serving.tensor_parallel",
    "pipeline_parallel_size": "firstlight_serving.pipeline_parallel",
    "gpus_per_node": "firstlight_hardware",
    "reasoning_parser": "firstlight_serving.reasoning_parser",
    "env_overrides": "inference_server_environment",
}
"""Keys of the file for which the plan has a setting of its own."""

_WHERE = "firstlight_serving.engine_settings"
_DEEPEST = 20


@dataclass(frozen=True)
class Problem:
    """A problem at one place of the file."""

    id: str
    found: str
    rule: str
    remedy: str


def check_settings(schema: SettingsSchema, document: Any, ranges: Mapping[str, Meaningful], errors: PlanErrors) -> None:
    """Refuse every key and every value that the engine would refuse."""
    for problem in settings_problems(schema, document, ranges):
        errors.add(problem.id, problem.found, problem.rule, problem.remedy)


def check_planned(settings: Mapping[str, Any], errors: PlanErrors) -> None:
    """Refuse keys of the operator's own settings that the plan decides."""
    for key in settings:
        if key in PLANNED:
            errors.add(
                "settings.planned",
                f"{_WHERE} has {key}",
                f"the plan writes it, from {PLANNED[key]}",
                f"remove {key} from {_WHERE}",
            )


def check_twice(planned: Mapping[str, Any], own: Mapping[str, Any], errors: PlanErrors, path: str = "") -> None:
    """Refuse keys that the operator has already set through an engine-independent setting."""
    for key, value in own.items():
        name = f"{path}{key}"
        if key not in planned:
            continue
        if isinstance(value, Mapping) and isinstance(planned[key], Mapping):
            check_twice(planned[key], value, errors, f"{name}.")
        else:
            errors.add(
                "settings.twice",
                f"{_WHERE} has {name}",
                "another key of firstlight_serving sets it already",
                f"remove {name} from {_WHERE}, or leave the other key out",
            )


def settings_problems(
    schema: SettingsSchema, document: Any, ranges: Mapping[str, Meaningful] | None = None
) -> list[Problem]:
    """Return all problems, in the order of the file."""
    if not isinstance(document, Mapping):
        return [_wrong(schema, "the settings file", document, "a mapping of settings")]
    return list(_Check(schema, ranges or {}).object(schema.root, document, "", needs_all=False))


class _Check:
    """The check of one file."""

    def __init__(self, schema: SettingsSchema, ranges: Mapping[str, Meaningful]) -> None:
        self.schema = schema
        self.ranges = ranges

    def object(
        self, name: str, value: Mapping[Any, Any], path: str, *, needs_all: bool = True, without: str = ""
    ) -> Iterator[Problem]:
        """Check the keys of an object; the root is completed by the command line, so nothing is missing there."""
        keys = self.schema.objects[name]
        for key, inner in value.items():
            if key == without:
                continue
            if str(key) not in keys or not isinstance(key, str):
                yield self._unknown(f"{path}{show(key)}", str(key), keys)
            else:
                yield from self.value(keys[key], inner, f"{path}{key}")
        missing = [key for key, one in keys.items() if one.required and key not in value] if needs_all else []
        if missing:
            yield Problem(
                "settings.value",
                f"{path.rstrip('.')} of {self.schema.engine}'s settings has no {listed(missing)}",
                f"{self.schema.title} has no default for it",
                f"add {listed(missing)} to {path.rstrip('.')}",
            )

    def value(self, key: Key, value: Any, path: str) -> Iterator[Problem]:
        """Check a value against the kinds its key takes; of several objects, the first plausible one is checked."""
        found: list[Problem] = []
        for kind in key.takes:
            problems = list(self.kind(kind, value, path))
            if not problems:
                found = []
                break
            found = found or problems if is_inner(kind, value) else found
        else:
            if not found:
                found = [self._refused(key, value, path)]
        yield from found
        if not found and isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from self._number(key, value, path)

    def kind(self, kind: Any, value: Any, path: str) -> Iterator[Problem]:
        """Yield the problems of a value that should be of one kind."""
        if path.count(".") > _DEEPEST:
            yield _wrong(self.schema, path, value, f"at most {_DEEPEST} levels")
            return
        match kind:
            case {"object": name} if isinstance(value, Mapping):
                yield from self.object(name, value, f"{path}.")
            case {"chosen_by": tag, "of": choice} if isinstance(value, Mapping):
                yield from self._chosen(kind, tag, choice, value, path)
            case {"list": inner} if isinstance(value, (list, tuple)):
                for number, item in enumerate(value):
                    yield from self.value(Key(tuple(inner), None, False, None), item, f"{path}[{number}]")
            case {"map": inner} if isinstance(value, Mapping):
                for name, item in value.items():
                    yield from self.value(Key(tuple(inner), None, False, None), item, f"{path}.{show(name)}")
            case {"words": words} if isinstance(value, str) and is_word(value, words, fold=bool(kind.get("fold"))):
                return
            case str() if is_plain(kind, value):
                return
            case _:
                yield _wrong(self.schema, path, value, words_of([kind]))

    def _chosen(
        self, kind: Mapping[str, Any], tag: str, choice: Mapping[str, str], value: Mapping[Any, Any], path: str
    ) -> Iterator[Problem]:
        """Check an object whose type is selected by one of its keys."""
        word = value.get(tag)
        folded = str(word).lower() if kind.get("fold") else word
        if folded not in choice:
            yield self._not_a_word(f"{path}.{tag}", word, list(choice))
            return
        yield from self.object(choice[str(folded)], value, f"{path}.", without=tag)

    def _number(self, key: Key, value: float, path: str) -> Iterator[Problem]:
        """Check for meaningless numbers, for keys that mean the same as the flag of their name."""
        if key.above is not None and value <= key.above:
            yield _wrong(self.schema, path, value, f"a number above {key.above:g}")
        inner = path.removeprefix("kv_cache_config.")
        meaningful = self.ranges.get(plain(f"--{inner}"))
        if meaningful is not None and value not in meaningful:
            yield _wrong(self.schema, path, value, f"a number {meaningful.words}")

    def _refused(self, key: Key, value: Any, path: str) -> Problem:
        words = [word for kind in key.takes if isinstance(kind, dict) for word in kind.get("words", ())]
        if words and isinstance(value, str):
            return self._not_a_word(path, value, words)
        return _wrong(self.schema, path, value, words_of(key.takes))

    def _not_a_word(self, path: str, value: Any, words: list[str]) -> Problem:
        nearest = nearest_word(str(value), words)
        return Problem(
            "settings.value",
            f"{path} of {self.schema.engine}'s settings is {_shown(path, value)}",
            f"{self.schema.title} takes {listed(words)}",
            f"write {path.rpartition('.')[2]}: {nearest}" if nearest else f"write one of them, or remove {path}",
        )

    def _unknown(self, path: str, key: str, keys: Mapping[str, Key]) -> Problem:
        nearest = nearest_word(key, keys)
        parent = path.rpartition(".")[0]
        return Problem(
            "settings.unknown",
            f"{self.schema.engine}'s settings have the key {path}",
            f"{self.schema.title} knows {f'in {parent} ' if parent else ''}{listed(keys)}",
            f"instead of {path} write {nearest}, or remove it" if nearest else f"remove {path}",
        )


def _shown(path: str, value: Any) -> str:
    return (
        "of the wrong kind" if SECRET.search(path.rpartition(".")[2]) and isinstance(value, str) else show(repr(value))
    )


def _wrong(schema: SettingsSchema, path: str, value: Any, expected: str) -> Problem:
    found = (
        f"{path} of {schema.engine}'s settings is" if path != "the settings file" else f"{path} of {schema.engine} is"
    )
    return Problem(
        "settings.value", f"{found} {_shown(path, value)}", f"{schema.title} takes {expected}", f"correct {path}"
    )
