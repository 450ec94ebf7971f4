# SPDX-License-Identifier: Apache-2.0
"""Interpret an operator's flags as the engine does: by the flag itself, in whatever spelling or split form."""

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
        """Return the value of a flag: empty for one without a value, None if it is absent or switched off."""
        for use in reversed(self._of(name)):
            if use.key is None:
                return None if use.name.startswith("--no-") else " ".join(use.values)
        return None

    def has(self, name: str) -> bool:
        """Whether a flag is present and on."""
        return self.text(name) is not None

    def size(self, name: str) -> int | None:
        """Return the number a flag stands for; invalid numbers are refused where values are checked."""
        text = self.text(name)
        flag = self.flags.get(name)
        return None if text is None or flag is None else read_size(flag, text)

    def document(self, name: str) -> dict[str, Any] | None:
        """Return the JSON of a flag, merged with keys that were written separately; None if there is none."""
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
    """Return the flags among these words; empty without a schema."""
    if schema is None:
        return Written()
    uses = tuple(one for one in split_words(schema, words) if isinstance(one, Use))
    return Written(uses, {flag.name: flag for flag in schema.flags})


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
