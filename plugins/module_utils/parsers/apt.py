# SPDX-License-Identifier: Apache-2.0
"""Parses output of apt-get and apt-cache: simulated transactions, complaints, available versions, package records."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

_STEP = re.compile(
    r"^(?P<verb>Inst|Remv|Purg) (?P<name>\S+)(?: \[(?P<old>[^\]]+)\])?(?: \((?P<new>\S+)(?P<origin>[^)]*)\))?"
)
_SIGNATURE = ("W: GPG error", "W: OpenPGP signature verification failed")
"""Since apt 3, sqv does the verification, and the warning is worded differently."""
_LINE = re.compile(r"^deb(?:-src)?\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)")


@dataclass(frozen=True)
class Step:
    """One package of a transaction: `new` is None if it is removed, `old` is None if it was not installed."""

    name: str
    old: str | None
    new: str | None
    origin: str = ""


@dataclass(frozen=True)
class Fetch:
    """One file that apt would fetch: its source, its local name, its size, and the hash that identifies it."""

    uri: str
    name: str
    size: int
    checksum: str

    @property
    def package(self) -> str:
        """The package's name."""
        return self.name.partition("_")[0]

    @property
    def version(self) -> str:
        """The package's version; apt writes the colon of an epoch in its file names as %3a."""
        return self.name.partition("_")[2].rpartition("_")[0].replace("%3a", ":")


@dataclass(frozen=True)
class Pin:
    """One record of apt preferences, for the packages of one pattern."""

    package: str
    pin: str
    priority: str


def parse_preferences(text: str | None) -> list[Pin]:
    """Parse the records of a preferences file, one per pattern; `Explanation` fields and comments are ignored."""
    found = []
    for stanza in re.split(r"\n[ \t]*\n", text or ""):
        rows = (line.partition(":") for line in stanza.splitlines() if not line.lstrip().startswith("#"))
        fields = {key.strip().lower(): value.strip() for key, colon, value in rows if colon}
        if fields.get("package") and fields.get("pin"):
            priority = fields.get("pin-priority", "")
            found += [Pin(pattern, fields["pin"], priority) for pattern in fields["package"].split()]
    return found


@dataclass(frozen=True)
class Source:
    """One repository of a sources file: its location, its suite, and whose signatures it trusts."""

    uri: str
    suite: str
    signed_by: str

    @property
    def repository(self) -> tuple[str, str]:
        """The key by which apt identifies a repository, whichever file names it."""
        return self.uri.rstrip("/"), self.suite.rstrip("/") or "/"


def parse_sources(text: str | None) -> list[Source]:
    """Parse the repositories of a sources file, in deb822 or one-line format; disabled ones are left out."""
    deb822 = re.search(r"^URIs:", text or "", re.MULTILINE | re.IGNORECASE)
    return _stanza_sources(text or "") if deb822 else _line_sources(text or "")


def _stanza_sources(text: str) -> list[Source]:
    found = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        rows = (line.partition(":") for line in lines if line and not line[0].isspace())
        fields = {key.strip().lower(): value.strip() for key, _, value in rows}
        if fields.get("enabled", "yes").lower() not in ("no", "false", "0"):
            found += [
                Source(uri, suite, fields.get("signed-by", ""))
                for uri in fields.get("uris", "").split()
                for suite in fields.get("suites", "").split()
            ]
    return found


def _line_sources(text: str) -> list[Source]:
    found = []
    for line in text.splitlines():
        words = _LINE.match(line.partition("#")[0].strip())
        if words is not None:
            options = dict(option.partition("=")[::2] for option in (words["options"] or "").split())
            found.append(Source(words["uri"], words["suite"], options.get("signed-by", "")))
    return found


def parse_uris(text: str) -> list[Fetch]:
    """Parse `apt-get --print-uris`: lines of `'URI' NAME SIZE KIND:HASH`."""
    found = []
    for line in text.splitlines():
        uri, quote, rest = line[1:].partition("' ") if line.startswith("'") else ("", "", "")
        words = rest.split()
        if quote and len(words) >= 2 and words[0].endswith(".deb") and words[1].isdigit():
            found.append(Fetch(unquote(uri), words[0], int(words[1]), words[2] if len(words) > 2 else ""))
    return found


def parse_simulation(text: str) -> list[Step]:
    """Parse the steps of `apt-get --simulate`, in order; configuring is not a step of its own."""
    steps = []
    for line in text.splitlines():
        found = _STEP.match(line)
        if found is None:
            continue
        going = found["verb"] != "Inst"
        origin = (found["origin"] or "").partition("[")[0].strip()
        steps.append(Step(found["name"], found["old"], None if going else found["new"], origin))
    return steps


def parse_complaints(text: str) -> list[str]:
    """Return the reasons that apt gave, each once: its errors, else its warnings.

    An invalid signature is only a warning, followed by an error that there is no signature.
    """
    lines = [line.strip() for line in text.splitlines()]
    signature = [" ".join(line.removeprefix("W: ").split()) for line in lines if line.startswith(_SIGNATURE)]
    for mark in ("E: ", "W: "):
        # The last one only says that there were others.
        said = [line.removeprefix(mark) for line in lines if line.startswith(mark)]
        telling = [line for line in said if not line.startswith("Some index files failed to download")]
        if telling or said:
            return list(dict.fromkeys([*signature, *(telling or said)]))
    return []


def parse_unmet(text: str) -> list[str]:
    """Parse the dependencies that apt could not satisfy, as it lists them before it gives up, each on one line."""
    found: list[str] = []
    listing = False
    for line in text.splitlines():
        if line.startswith("The following packages have unmet dependencies"):
            listing = True
        elif listing and not line.startswith(" "):
            listing = False
        elif listing:
            name, colon, reason = line.partition(" : ")
            owner = name.strip() if colon else found[-1].partition(" : ")[0] if found else ""
            found.append(f"{owner} : {' '.join((reason if colon else line).split())}")
    return found


def parse_madison(text: str) -> dict[str, list[str]]:
    """Parse `apt-cache madison`: the available versions of each package, newest first, each once."""
    offers: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 3 and cells[0] and cells[1] and not cells[2].endswith("Sources"):
            versions = offers.setdefault(cells[0], [])
            if cells[1] not in versions:
                versions.append(cells[1])
    return offers


def parse_records(text: str) -> list[dict[str, str]]:
    """Parse `apt-cache show` or `dpkg-query --status`: one dict per package, with the first line of folded fields."""
    records: list[dict[str, str]] = []
    for chunk in text.split("\n\n"):
        lines = [line for line in chunk.splitlines() if line and not line[0].isspace() and ":" in line]
        record = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        if record.get("Package"):
            records.append(record)
    return records


def relation_names(records: Iterable[dict[str, str]], fields: Iterable[str]) -> set[str]:
    """The package names in these relations (Conflicts, Provides ...), without versions and architectures."""
    wanted = tuple(fields)
    words = (
        word
        for record in records
        for field in wanted
        for clause in record.get(field, "").split(",")
        for word in clause.split("|")
    )
    return {word.split()[0].partition(":")[0] for word in words if word.split()}
