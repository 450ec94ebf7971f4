# SPDX-License-Identifier: Apache-2.0
"""What an operator's flags mean to the engine: by the flag itself, however it was spelt, shortened or taken apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema, Flag
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import read_size
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.words import Use, split_words


@dataclass(frozen=True)
class Written:
    """The flags of a command line, each under the first name its engine gives it."""

    uses: tuple[Use, ...] = ()
    flags: Mapping[str, Flag] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """The value of a flag: empty for one without a value, None when it is not there or switched off."""
        for use in reversed(self._of(name)):
            if use.key is None:
                return None if use.name.startswith("--no-") else " ".join(use.values)
        return None

    def has(self, name: str) -> bool:
        """Whether a flag is there and on."""
        return self.text(name) is not None

    def size(self, name: str) -> int | None:
        """The number a flag stands for; what the engine cannot read is refused where its values are checked."""
        text = self.text(name)
        flag = self.flags.get(name)
        return None if text is None or flag is None else read_size(flag, text)

    def document(self, name: str) -> dict[str, Any] | None:
        """The JSON of a flag, with the keys that were written by themselves; None when there is none."""
        found: dict[str, Any] = {}
        for use in self._of(name):
            text = " ".join(use.values)
            if use.key is not None:
                found[use.key] = _plain(text)
                continue
            document = _plain(text)
            if isinstance(document, dict):
                found = {**document, **found}
        return found or None

    def _of(self, name: str) -> list[Use]:
        return [use for use in self.uses if use.flag is not None and use.flag.name == name]


def written(schema: EngineSchema | None, words: Sequence[str]) -> Written:
    """The flags among these words; without a schema nothing is known of them."""
    if schema is None:
        return Written()
    uses = tuple(one for one in split_words(schema, words) if isinstance(one, Use))
    return Written(uses, {flag.name: flag for flag in schema.flags})


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
