# SPDX-License-Identifier: Apache-2.0
"""Checks a command line against the flags of the pinned engine, before the engine is there to refuse it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.nearest import full_names, nearest_flag
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import Replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema, Flag, is_later
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import (
    SECRET,
    check_key,
    check_value,
    show,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.words import (
    Stray,
    Use,
    looks_like_flag,
    split_words,
    without_program,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals

REFUSALS: dict[str, str] = {
    "flags.unknown": "An engine that meets a flag it does not know ends before it loads anything, often minutes after "
    "the start of its container. Every flag is compared with the parser of the pinned version.",
    "flags.replaced": "Guides outlive versions: a flag may be gone, renamed, or never have existed. The catalog says "
    "what each means today.",
    "flags.abbreviation": "Python's parsers take the beginning of a flag for the flag. The next version may have two "
    "flags with that beginning, or another one, so only whole names are rendered.",
    "flags.value": "A value of the wrong type or outside a flag's choices ends the engine; some are only refused after "
    "the weights were loaded.",
    "flags.stray": "A word that belongs to no flag is usually the rest of a value that was split, or a forgotten dash.",
    "flags.environment": "A variable that no part of the stack reads changes nothing and hides that the wish behind it "
    "was not fulfilled.",
    "flags.too-many": "A command line of this length comes from a mistake in what made it.",
}

MOST_WORDS = 5000
MOST_LOOKUPS = 50
HELP = {"-h", "--help"}
PLUGINS = {
    "--tool-call-parser": "--tool-parser-plugin",
    "--reasoning-parser": "--reasoning-parser-plugin",
}
"""Flags whose words a plugin named by another flag can extend."""
PLAIN_TYPES = frozenset({"int", "float", "size", "bool", "enum"})
"""What a flag of these takes is no secret, whatever its name: --max-num-batched-tokens."""
HIDDEN = "..."


class Finding(TypedDict):
    """What was found about one flag or word of a command line."""

    argument: str
    flag: str | None
    known: bool
    problem: str | None
    nearest: str | None
    replaced_by: str | None
    explanation: str | None
    refusal: str | None
    """Id of the refusal it leads to, None when nothing is wrong."""


def check_arguments(schema: EngineSchema, arguments: Sequence[str], replaced: Replaced) -> list[Finding]:
    """One finding for each flag in the arguments, and for each word that belongs to none, in their order.

    The arguments may begin with the program: `vllm serve MODEL ...`.
    """
    words = [str(argument) for argument in arguments]
    if len(words) > MOST_WORDS:
        problem = f"the command line has {len(words)} words, more than {MOST_WORDS}"
        return [_finding(show(words[0]), None, known=False, problem=problem, refusal="flags.too-many")]
    check = _Check(schema, replaced)
    items = list(split_words(schema, without_program(schema.engine, words)))
    check.given = {item.name for item in items if isinstance(item, Use)}
    return [check.stray(item) if isinstance(item, Stray) else check.use(item) for item in items]


def may_be_secret(item: Use) -> bool:
    """Whether what follows a flag may be a secret, to judge by its name and its type."""
    if item.flag is not None and item.flag.type in PLAIN_TYPES:
        return False
    return SECRET.search(f"{item.name}.{item.key}" if item.key else item.name) is not None


class _Check:
    """One command line being checked."""

    def __init__(self, schema: EngineSchema, replaced: Replaced) -> None:
        self.schema = schema
        self.replaced = replaced
        self.given: set[str] = set()
        self.seen: set[str] = set()
        self.lookups = 0
        self.after: str | None = None
        """The flag or word just read, when what follows it may be, or belong to, a secret."""
        self.lacks_value = False
        """Whether that flag has no value yet."""

    def stray(self, item: Stray) -> Finding:
        if self.after is not None:
            problem = f"a word after {self.after}, not repeated here, belongs to no flag of {self.schema.title}"
            return _finding(HIDDEN, None, known=False, problem=problem, refusal="flags.stray")
        nearest = None
        if self.lookups < MOST_LOOKUPS and not looks_like_flag(item.word):
            self.lookups += 1
            nearest = next((name for name in (f"--{item.word}", f"-{item.word}") if name in self.schema.by_name), None)
        problem = f"{show(item.word)!r} belongs to no flag of {self.schema.title}"
        self.after = show(item.word) if SECRET.search(item.word) else None
        return _finding(show(item.word), None, known=False, problem=problem, nearest=nearest, refusal="flags.stray")

    def use(self, item: Use) -> Finding:
        finding = self.unknown(item) if item.flag is None else self.known(item, item.flag)
        secret = may_be_secret(item) or (item.flag is None and SECRET.search(finding["nearest"] or "") is not None)
        self.after = finding["argument"].partition(" ")[0] if secret else None
        self.lacks_value = secret and not item.values and "=" not in item.word
        return finding

    def known(self, item: Use, flag: Flag) -> Finding:
        """A flag of the engine, with its values."""
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
                if problem is None and (wrong := check_value(flag, value, plugin=plugin)) is not None:
                    hidden = "does not take the value it has, which is not repeated here"
                    problem, word = f"{name} {hidden if may_be_secret(item) else wrong[0]}", wrong[1]
                    nearest = word if word is None or flag.type == "bool" else f"{name} {word}"
        explanation = None if entry is None else str(entry["meaning"])
        finding = _finding(argument, flag.name, known=True, problem=problem, nearest=nearest)
        finding["explanation"] = explanation or flag.deprecated or self._again(item)
        if problem is not None:
            finding["refusal"] = "flags.value"
            finding["replaced_by"] = None if entry is None else entry["replacement"]
        self.seen.add(flag.name)
        return finding

    def key(self, item: Use, name: str) -> tuple[str | None, str | None]:
        """Whether a flag takes a key of JSON."""
        flag = item.flag
        if flag is None or flag.type != "json":
            return f"{name}: {item.name} takes no JSON, so it has no keys", item.name
        first = str(item.key).partition(".")[0].removesuffix("+")
        wrong = check_key(flag, first)
        if wrong is None:
            return None, None
        return f"{item.name} {wrong[0]}", wrong[1] and f"{item.name}.{wrong[1]}"

    def unknown(self, item: Use) -> Finding:
        """A flag that the engine's parser would refuse, or take for another."""
        base = item.name.partition(".")[0] if self.schema.subkeys else item.name
        argument = show(item.word.partition("=")[0])
        problem = f"{self.schema.title} has no flag {show(base)}"
        if self.lacks_value:  # a secret may begin with a dash
            argument = HIDDEN
            problem = f"the word after {self.after}, not repeated here, is no flag of {self.schema.title}"
        if base in HELP:
            problem = f"{show(base)} prints the flags of {self.schema.title} and ends; it starts no server"
            return _finding(argument, None, known=False, problem=problem, refusal="flags.unknown")
        if (entry := self.replaced.flag(self.schema.engine, base)) is not None:
            finding = _finding(argument, None, known=False, problem=problem, refusal="flags.replaced")
            finding["replaced_by"], finding["explanation"] = entry["replacement"], entry["meaning"]
            first = str(entry["replacement"] or "").partition(" ")[0]
            finding["nearest"] = first if first.partition(".")[0] in self.schema.by_name else None
            return finding
        explanation = self._history(base)
        nearest = None
        if self.lookups < MOST_LOOKUPS:
            self.lookups += 1
            nearest = nearest_flag(base, self.schema, self.replaced.words or {})
        finding = _finding(argument, None, known=False, problem=problem, nearest=nearest, refusal="flags.unknown")
        finding["explanation"] = explanation
        if self.schema.abbreviations and explanation is None and (full := full_names(base, self.schema)):
            taken = f"; its parser takes it only as the beginning of {', '.join(full[:4])}"
            finding["problem"], finding["nearest"] = problem + taken, full[0]
            finding["refusal"] = "flags.abbreviation"
        return finding

    def _history(self, name: str) -> str | None:
        """What other releases knew of a flag."""
        times = self.schema.history.get(name)
        if not times:
            return None
        first, last = times[-1]
        if is_later(first, self.schema.version):
            return f"It came with {self.schema.engine} {first}"
        return f"{self.schema.engine} had it from {times[0][0]} to {last}"

    def _value_entry(self, item: Use, value: str) -> Mapping[str, Any] | None:
        names = item.flag.names if item.flag else ()
        found = (self.replaced.value(self.schema.engine, name, value) for name in names)
        return next((entry for entry in found if entry is not None), None)

    def _again(self, item: Use) -> str | None:
        if item.flag is None or item.flag.name not in self.seen or item.key is not None or item.flag.repeatable:
            return None
        return f"{item.flag.name} is given more than once; the engine takes the last"


def _finding(
    argument: str,
    flag: str | None,
    *,
    known: bool,
    problem: str | None = None,
    nearest: str | None = None,
    refusal: str | None = None,
) -> Finding:
    return {
        "argument": argument,
        "flag": flag,
        "known": known,
        "problem": problem,
        "nearest": nearest,
        "replaced_by": None,
        "explanation": None,
        "refusal": refusal,
    }


def _argument(item: Use) -> str:
    """A flag and its values as given; what may be a secret is not repeated."""
    word = item.word.partition("=")[0]
    if may_be_secret(item):
        name = item.name if item.key is None else f"{item.name}.{item.key}"
        return f"{show(name)} {HIDDEN}" if item.values else show(name)
    if not word.startswith("--") and word != item.name and item.key is None:
        return show(item.word)  # -O3, with its value attached
    return " ".join([show(word), show(" ".join(item.values), 200)]) if item.values else show(word)


def check_environment(
    names: Iterable[str], replaced: Replaced, engine: str | None = None, version: str | None = None
) -> list[Finding]:
    """A finding for each variable that no part of the stack reads.

    Variables that an engine once read are only judged when the engine and its version are given.
    """
    findings = []
    for name in names:
        for entry in replaced.environment:
            if entry["variable"] == name and _applies(entry, engine, version):
                problem = f"the variable {show(name)} is read by nothing in this stack"
                finding = _finding(show(name), None, known=False, problem=problem, refusal="flags.environment")
                finding["replaced_by"], finding["explanation"] = entry["replacement"], entry["meaning"]
                findings.append(finding)
                break
    return findings


def _applies(entry: Mapping[str, Any], engine: str | None, version: str | None) -> bool:
    if entry["engine"] is None:
        return True
    if entry["engine"] != engine or version is None:
        return False
    return entry["until"] is None or is_later(version, entry["until"])


def to_refusals(findings: Iterable[Finding], refusals: Refusals) -> None:
    """Add a refusal for each finding with a problem."""
    for finding in findings:
        identifier = finding["refusal"]
        if identifier is None or finding["problem"] is None:
            continue
        explanation = f". {finding['explanation']}" if finding["explanation"] else ""
        refusals.add(identifier, finding["problem"] + explanation, _RULES[identifier], _remedy(finding))


_RULES = {
    "flags.unknown": "every flag is one that the parser of the pinned engine takes",
    "flags.replaced": "every flag is one that the parser of the pinned engine takes",
    "flags.abbreviation": "flags are written in full",
    "flags.value": "every value is one that the flag of the pinned engine takes",
    "flags.stray": "every word belongs to a flag",
    "flags.environment": "every variable is read by some part of the stack",
    "flags.too-many": f"a command line has at most {MOST_WORDS} words",
}


def _remedy(finding: Finding) -> str:
    argument = "that word" if finding["argument"] == HIDDEN else finding["argument"]
    if finding["replaced_by"]:
        return f"instead of {argument} write {finding['replaced_by']}"
    if finding["refusal"] in {"flags.replaced", "flags.environment"}:
        return f"remove {argument}"
    if finding["nearest"]:
        return f"instead of {argument} write {finding['nearest']}, or remove it"
    return f"remove {argument}, or correct it"
