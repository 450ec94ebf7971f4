# SPDX-License-Identifier: Apache-2.0
"""Check a command line against the flags of the pinned engine, before the engine itself refuses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.environment import check_environment
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.findings import (
    HIDDEN,
    MOST_WORDS,
    Finding,
    make_finding,
    to_errors,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.nearest import full_names, nearest_flag
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import Replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema, Flag, is_later
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import (
    SECRET,
    check_key,
    check_range,
    check_value,
    show,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.words import (
    GLUED,
    SERVERS,
    Stray,
    Use,
    looks_like_flag,
    plain_name,
    read_call,
    split_words,
)

__all__ = [
    "ERRORS",
    "MOST_WORDS",
    "Finding",
    "check_arguments",
    "check_environment",
    "may_be_secret",
    "to_errors",
]

ERRORS: dict[str, str] = {
    "flags.unknown": "An engine exits at a flag that it does not know before it loads anything, often minutes after "
    "its container was started. Every flag is compared with the parser of the pinned version.",
    "flags.replaced": "Guides outlive versions: a flag may be gone, renamed, or never have existed. The catalog says "
    "what each means today.",
    "flags.abbreviation": "Python's parsers accept the beginning of a flag as an abbreviation. The next version may "
    "have two flags with that beginning, or another one, so only full names are rendered.",
    "flags.value": "A value of the wrong type or outside a flag's choices makes the engine exit; some are only refused "
    "after the weights were loaded.",
    "flags.program": "Flags of one program say nothing about another: an engine comes with builders, benchmarks and "
    "clients beside its server, and only the server's flags are known here.",
    "flags.stray": "A word that belongs to no flag is usually the rest of a value that was split, or a forgotten dash.",
    "flags.environment": "A variable that no part of the stack reads has no effect, and hides that what it was meant "
    "for does not happen.",
    "flags.too-many": "A command line of this length comes from a mistake in what generated it.",
}

MOST_LOOKUPS = 50
HELP = {"-h", "--help"}
PLUGINS = {
    "--tool-call-parser": "--tool-parser-plugin",
    "--reasoning-parser": "--reasoning-parser-plugin",
}
"""Flags whose values can be extended by a plugin that another flag names."""
PLAIN_TYPES = frozenset({"int", "float", "size", "bool", "enum"})
"""Flags of these types hold no secret, whatever their name: --max-num-batched-tokens."""


def check_arguments(schema: EngineSchema, arguments: Sequence[str], replaced: Replaced) -> list[Finding]:
    """Return one finding for each flag in the arguments, and for each word that belongs to none, in their order.

    The arguments may begin with variables and the program: `NCCL_DEBUG=INFO vllm serve MODEL ...`.
    """
    words = [str(argument) for argument in arguments]
    if len(words) > MOST_WORDS:
        problem = f"the command line has {len(words)} words, more than {MOST_WORDS}"
        return [make_finding(show(words[0]), None, known=False, problem=problem, error="flags.too-many")]
    check = _Check(schema, replaced)
    call = read_call(schema.engine, words)
    items = list(split_words(schema, call.arguments))
    check.given = {item.name for item in items if isinstance(item, Use)}
    return [
        *check.variables(call.variables),
        *([check.program(call.other)] if call.other else []),
        *(check.stray(item) if isinstance(item, Stray) else check.use(item) for item in items),
    ]


def may_be_secret(item: Use) -> bool:
    """Whether the value of a flag may be a secret, judging by the flag's name and type."""
    if item.flag is not None and item.flag.type in PLAIN_TYPES:
        return False
    return SECRET.search(f"{item.name}.{item.key}" if item.key else item.name) is not None


class _Check:
    """The check of one command line."""

    def __init__(self, schema: EngineSchema, replaced: Replaced) -> None:
        self.schema = schema
        self.replaced = replaced
        self.given: set[str] = set()
        self.seen: set[str] = set()
        self.lookups = 0
        self.after: str | None = None
        """The flag or word just read, if what follows it may be, or belong to, a secret."""
        self.lacks_value = False
        """Whether that flag has no value yet."""

    def variables(self, names: Sequence[str]) -> list[Finding]:
        """Return findings for the variables before the command that nothing reads."""
        findings = check_environment(names, self.replaced, self.schema.engine, self.schema.version)
        for finding in findings:
            finding["replaced_by"] = self._real(finding["replaced_by"])
        return findings

    def program(self, name: str) -> Finding:
        """Return the finding for a program that is not the engine's server."""
        shown = show(f"python {name}" if name.startswith("-m ") else name)
        problem = f"{shown} is not the server of {self.schema.title}"
        finding = make_finding(shown, None, known=False, problem=problem, error="flags.program")
        entry = self.replaced.program(self.schema.engine, name)
        finding["replaced_by"] = SERVERS.get(self.schema.engine)
        finding["explanation"] = None if entry is None else entry["meaning"]
        return finding

    def _real(self, replacement: str | None) -> str | None:
        """Return the replacement, unless it is a flag that this version does not have."""
        first = str(replacement or "").partition(" ")[0].partition(".")[0]
        return None if first.startswith("-") and first not in self.schema.by_name else replacement

    def stray(self, item: Stray) -> Finding:
        if self.after is not None:
            problem = f"a word after {self.after}, not shown here, belongs to no flag of {self.schema.title}"
            return make_finding(HIDDEN, None, known=False, problem=problem, error="flags.stray")
        nearest = None
        if self.lookups < MOST_LOOKUPS and not looks_like_flag(item.word):
            self.lookups += 1
            nearest = next((name for name in (f"--{item.word}", f"-{item.word}") if name in self.schema.by_name), None)
        problem = f"{show(item.word)!r} belongs to no flag of {self.schema.title}"
        self.after = show(item.word) if SECRET.search(item.word) else None
        if (glued := GLUED.match(item.word)) is not None:
            return self.glued(item, glued[1])
        return make_finding(show(item.word), None, known=False, problem=problem, nearest=nearest, error="flags.stray")

    def glued(self, item: Stray, flag: str | None) -> Finding:
        """Return the finding for a flag and its value, or more, in one word: the engine's parser sees no flag in it."""
        problem = f"{show(item.word)!r} is one word with spaces in it, so {self.schema.title} sees no flag"
        finding = make_finding(show(item.word), None, known=False, problem=problem, error="flags.stray")
        if flag is not None:
            name = plain_name(self.schema, flag)
            evaluated = None if name in self.schema.by_name else self.unknown(Use(name, name, None))
            finding["nearest"] = name if evaluated is None else evaluated["nearest"]
            if evaluated is not None:
                finding["replaced_by"], finding["explanation"] = evaluated["replaced_by"], evaluated["explanation"]
        return finding

    def use(self, item: Use) -> Finding:
        finding = self.unknown(item) if item.flag is None else self.known(item, item.flag)
        secret = may_be_secret(item) or (item.flag is None and SECRET.search(finding["nearest"] or "") is not None)
        self.after = finding["argument"].partition(" ")[0] if secret else None
        self.lacks_value = secret and not item.values and "=" not in item.word
        return finding

    def known(self, item: Use, flag: Flag) -> Finding:
        """Return the finding for a flag of the engine, including problems of its values."""
        argument = _argument(item)
        name = show(item.name if item.key is None else f"{item.name}.{item.key}")
        problem = nearest = entry = None
        if item.problem is not None:
            problem = f"{name} {item.problem}"
        elif item.key is not None:
            problem, nearest = self.key(item, name)
        else:
            for value in item.values:
                entry = entry or self._value_entry(item, value)
                plugin = PLUGINS.get(item.name) in self.given
                wrong = check_value(flag, value, plugin=plugin)
                if wrong is None and flag.name in self.schema.ranges:
                    wrong = check_range(flag, value, self.schema.ranges[flag.name])
                if problem is None and wrong is not None:
                    hidden = "does not accept its value, which is not shown here"
                    problem, word = f"{name} {hidden if may_be_secret(item) else wrong[0]}", wrong[1]
                    nearest = word if word is None or flag.type == "bool" else f"{name} {word}"
        explanation = None if entry is None else str(entry["meaning"])
        finding = make_finding(argument, flag.name, known=True, problem=problem, nearest=nearest)
        finding["explanation"] = explanation or flag.deprecated or self._again(item)
        if problem is not None:
            finding["error"] = "flags.value"
            finding["replaced_by"] = None if entry is None else entry["replacement"]
        self.seen.add(flag.name)
        return finding

    def key(self, item: Use, name: str) -> tuple[str | None, str | None]:
        """Return the problem, and the nearest key, if a flag does not take this JSON key."""
        flag = item.flag
        if flag is None or flag.type != "json":
            return f"{name}: {item.name} takes no JSON, so it has no keys", item.name
        first = str(item.key).partition(".")[0].removesuffix("+")
        wrong = check_key(flag, first)
        if wrong is None:
            return None, None
        return f"{item.name} {wrong[0]}", wrong[1] and f"{item.name}.{wrong[1]}"

    def unknown(self, item: Use) -> Finding:
        """Return the finding for a flag that the engine's parser would refuse, or take for another."""
        base = item.name.partition(".")[0] if self.schema.subkeys else item.name
        argument = show(item.word.partition("=")[0])
        problem = f"{self.schema.title} has no flag {show(base)}"
        if self.lacks_value:  # a secret may begin with a dash
            argument = HIDDEN
            problem = f"the word after {self.after}, not shown here, is not a flag of {self.schema.title}"
        if base in HELP:
            problem = f"{show(base)} prints the flags of {self.schema.title} and exits; it starts no server"
            return make_finding(argument, None, known=False, problem=problem, error="flags.unknown")
        if (entry := self.replaced.flag(self.schema.engine, base)) is not None:
            finding = make_finding(argument, None, known=False, problem=problem, error="flags.replaced")
            finding["replaced_by"], finding["explanation"] = self._real(entry["replacement"]), entry["meaning"]
            first = str(finding["replaced_by"] or self._real(entry.get("see")) or "").partition(" ")[0]
            finding["nearest"] = first or self._nearest(base)
            return finding
        explanation = self._history(base)
        nearest = self._nearest(base)
        finding = make_finding(argument, None, known=False, problem=problem, nearest=nearest, error="flags.unknown")
        finding["explanation"] = explanation
        if self.schema.abbreviations and explanation is None and (full := full_names(base, self.schema)):
            taken = f"; its parser accepts it only as an abbreviation of {', '.join(full[:4])}"
            finding["problem"], finding["nearest"] = problem + taken, full[0]
            finding["error"] = "flags.abbreviation"
        return finding

    def _nearest(self, name: str) -> str | None:
        if self.lookups >= MOST_LOOKUPS:
            return None
        self.lookups += 1
        return nearest_flag(name, self.schema, self.replaced.words or {})

    def _history(self, name: str) -> str | None:
        """Return a sentence about the releases that have or had a flag; None if no release is known."""
        times = self.schema.history.get(name)
        if not times:
            return None
        first, last = times[-1]
        if is_later(first, self.schema.version):
            return f"It was added in {self.schema.engine} {first}"
        return f"{self.schema.engine} had it from {times[0][0]} to {last}"

    def _value_entry(self, item: Use, value: str) -> Mapping[str, Any] | None:
        names = item.flag.names if item.flag else ()
        found = (self.replaced.value(self.schema.engine, name, value) for name in names)
        return next((entry for entry in found if entry is not None), None)

    def _again(self, item: Use) -> str | None:
        if item.flag is None or item.flag.name not in self.seen or item.key is not None or item.flag.repeatable:
            return None
        return f"{item.flag.name} is given more than once; the engine takes the last"


def _argument(item: Use) -> str:
    """Return a flag and its values as given; a possible secret is not repeated."""
    word = item.word.partition("=")[0]
    if may_be_secret(item):
        name = item.name if item.key is None else f"{item.name}.{item.key}"
        return f"{show(name)} {HIDDEN}" if item.values else show(name)
    if not word.startswith("--") and word != item.name and item.key is None:
        return show(item.word)  # -O3, with its value attached
    return " ".join([show(word), show(" ".join(item.values), 200)]) if item.values else show(word)
