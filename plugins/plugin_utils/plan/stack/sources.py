# SPDX-License-Identifier: Apache-2.0
"""Resolve package sources: the catalog's, or an operator's mirror or directory that replaces one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt_history import without_credentials
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.openpgp import fingerprints, plain_fingerprint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.source import (
    WHERE_LOGINS_BELONG,
    with_password,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import check_keys

ERRORS = {
    "source.unknown": "A stack names the source of its packages; an unknown name has no address and no key.",
    "source.kind": "A source is a repository of its own, or one that the host already has.",
    "source.repository": "A source has one repository for a distribution and architecture; which one is not guessed.",
    "source.key": "Packages are trusted only with a key whose fingerprint was pinned independently.",
    "source.password": "Addresses of sources are in the plan and in files that every user of a host can read.",
    "source.trusted": "Without a signature only a directory on the host itself is trusted, never a network.",
}

VARIABLE = "firstlight_sources"
_FIELDS = ("uris", "directory", "suites", "components", "key", "key_file", "fingerprint", "trusted")
_LISTS = ("uris", "suites", "components")
REPOSITORY, HOST = "repository", "host"

Source = dict[str, Any]


def key_files(intent: Mapping[str, Any]) -> list[str]:
    """Return the key files that an intent names, for the caller to read."""
    given = intent.get(VARIABLE)
    listed = given.values() if isinstance(given, Mapping) else ()
    return sorted({one["key_file"] for one in listed if isinstance(one, Mapping) and _is_text(one.get("key_file"))})


def read_replacements(
    intent: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], keys: Mapping[str, str], errors: PlanErrors
) -> dict[str, Source]:
    """Read the operator's replacements of catalog sources, by name; `keys` are the contents of the key files."""
    given = intent.get(VARIABLE)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        errors.add(
            "intent.type",
            f"{VARIABLE} is {_shown(given)}",
            f"{VARIABLE} maps the name of a source to what replaces it",
            f"write it as {{cuda-repository: {{uris: [https://mirror.example/...]}}}}; keys are {', '.join(_FIELDS)}",
        )
        return {}
    found: dict[str, Source] = {}
    for name, one in given.items():
        if name not in known:
            errors.add(
                "source.unknown",
                f"{VARIABLE} has {name!r}",
                "it replaces sources of the catalog, by their names",
                suggest(str(name), sorted(known)),
            )
        elif not isinstance(one, Mapping):
            errors.add(
                "intent.type",
                f"{VARIABLE}.{name} is {_shown(one)}",
                f"it is a mapping with the keys {', '.join(_FIELDS)}",
                "write it as a mapping",
            )
        else:
            found[str(name)] = _replacement(str(name), one, keys, errors)
    return found


def _replacement(name: str, given: Mapping[str, Any], keys: Mapping[str, str], errors: PlanErrors) -> Source:
    where = f"{VARIABLE}.{name}"
    check_keys(given, _FIELDS, where, errors)
    source = _lists(given, where, errors)
    for field in ("directory", "key", "key_file"):
        if given.get(field) is not None and not _is_text(given[field]):
            _wrong(errors, f"{where}.{field}", given[field], "a string")
        elif given.get(field):
            source[field] = given[field]
    listed = given.get("fingerprint")
    if listed is not None:
        source["fingerprint"] = listed if isinstance(listed, list) else [listed]
    if not isinstance(given.get("trusted", False), bool):
        _wrong(errors, f"{where}.trusted", given["trusted"], "true or false")
    elif given.get("trusted"):
        source["trusted"] = True
    directory = source.pop("directory", None)
    if directory is not None:
        if not directory.startswith("/") or "uris" in source:
            errors.add(
                "source.repository",
                f"{where} has directory {directory!r}" + (" and uris" if "uris" in source else ""),
                "a directory is an absolute path on the hosts, and takes the place of uris",
                "write directory: /srv/packages and leave uris out",
            )
        source["uris"] = [f"file:{directory}"]
        source.setdefault("suites", ["./"])
        source.setdefault("components", [])
    path = source.pop("key_file", None)
    if path is not None:
        source["key"] = keys.get(path, "")
    if source.get("trusted") and any(urlsplit(uri).scheme != "file" for uri in source.get("uris", [""])):
        errors.add(
            "source.trusted",
            f"{where} is trusted and has uris {' '.join(source.get('uris', ['of the catalog']))}",
            "without a signature only a directory on the host itself is trusted",
            "give key_file and fingerprint instead, or a directory",
        )
    return source


def _lists(given: Mapping[str, Any], where: str, errors: PlanErrors) -> Source:
    """Read the fields that are lists of texts, or one text; addresses with passwords are refused."""
    source: Source = {}
    for field in _LISTS:
        value = [given[field]] if _is_text(given.get(field)) else given.get(field)
        if value is None:
            continue
        if not isinstance(value, list) or not all(_is_text(one) for one in value):
            _wrong(errors, f"{where}.{field}", given[field], "a list of strings")
        elif field != "uris" or not _has_password(value, where, errors):
            source[field] = value
    return source


def resolve(
    name: str,
    known: Mapping[str, Mapping[str, Any]],
    replaced: Mapping[str, Source],
    distributions: Sequence[Mapping[str, Any]],
    architecture: str | None,
    errors: PlanErrors,
    missing_inputs: PlanErrors,
) -> Source:
    """Return the named source as a role takes it; empty if the host's own sources suffice, or it was refused."""
    if name not in known:
        errors.add(
            "source.unknown",
            f"the stack names the source {name!r}",
            f"the catalog has no sources/{name}.yml",
            suggest(name, sorted(known), otherwise="add the entry to a directory of firstlight_catalog"),
        )
        return {}
    entry, mine = known[name], replaced.get(name, {})
    if entry["kind"] not in (REPOSITORY, HOST):
        errors.add(
            "source.kind",
            f"source {name} has kind {entry['kind']!r}",
            f"kind is {REPOSITORY}, or {HOST} where the host's own sources have it",
            f"correct kind in sources/{name}.yml",
        )
        return {}
    if entry["kind"] == HOST and not mine.get("uris"):
        return {}
    found = {} if mine.get("uris") else _repository(name, entry, distributions, architecture, errors)
    uris = mine.get("uris") or found.get("uris") or []
    source: Source = {"uris": uris, "suites": mine.get("suites") or found.get("suites") or entry.get("suites") or []}
    components = mine.get("components", entry.get("components"))
    if components:
        source["components"] = components
    if not source["suites"] and uris:
        errors.add(
            "source.repository",
            f"source {name} has uris and no suites",
            "apt needs both; a flat repository has the suite ./",
            f"add suites to {VARIABLE}.{name}",
        )
    if mine.get("trusted"):
        return source | {"trusted": True}
    key = _key(name, entry, mine, errors, missing_inputs)
    return source | key if key and uris else {}


def _repository(
    name: str,
    entry: Mapping[str, Any],
    distributions: Sequence[Mapping[str, Any]],
    architecture: str | None,
    errors: PlanErrors,
) -> Mapping[str, Any]:
    def fits(repository: Mapping[str, Any]) -> bool:
        releases = [(str(one["distribution"]), str(one["version"])) for one in distributions]
        mine = (repository.get("distribution"), repository.get("version"))
        return (mine == (None, None) or mine in releases) and repository.get("architecture") in (None, architecture)

    found = [one for one in entry.get("repositories") or () if fits(one)]
    if len(found) == 1:
        return {} if _has_password(found[0]["uris"], f"source {name}", errors) else found[0]
    releases = " or ".join(f"{one['distribution']} {one['version']}" for one in distributions) or "any distribution"
    errors.add(
        "source.repository",
        f"source {name} has {len(found) or 'no'} repositories for {releases} on {architecture or 'any architecture'}",
        "a stack's source is one repository",
        f"set {VARIABLE}: {{{name}: {{uris: [...], suites: [...]}}}}, or add the repository to sources/{name}.yml",
    )
    return {}


def _key(
    name: str, entry: Mapping[str, Any], mine: Mapping[str, Any], errors: PlanErrors, missing_inputs: PlanErrors
) -> dict[str, Any] | None:
    """Return key and fingerprint, or None if they are missing or do not match."""
    key = mine.get("key") if "key" in mine else entry.get("key")
    listed = mine.get("fingerprint") or entry.get("fingerprint") or []
    where = f"{VARIABLE}: {{{name}: {{key_file: FILE}}}}"
    try:
        pinned = [plain_fingerprint(str(one)) for one in (listed if isinstance(listed, list) else [listed])]
        if not pinned:
            raise ValueError("no fingerprint is given for its key")
        if not key:
            if "key" in mine:
                return None  # the file could not be read, which is refused where it is read
            missing_inputs.add(
                "source.key",
                f"source {name} is pinned to the fingerprint {' or '.join(pinned)}, but its key is not in the catalog",
                "the key of a source is supplied once, and compared with the fingerprint",
                f"fetch it from {_place(mine, entry)}, and set {where}",
            )
            return None
        foreign = [one for one in fingerprints(str(key)) if one not in pinned]
        if foreign:
            raise ValueError(f"its key has the fingerprint {' and '.join(foreign)}, expected {' or '.join(pinned)}")
    except ValueError as error:
        errors.add(
            "source.key",
            f"source {name}: {error}",
            "the repository's key is ASCII-armored and has the pinned fingerprint of 40 digits",
            f"find out which of the two is right, then set {where} and its fingerprint",
        )
        return None
    return {"key": str(key), "fingerprint": pinned[0] if len(pinned) == 1 else pinned}


def _place(mine: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    uris = mine.get("uris") or [uri for one in entry.get("repositories") or () for uri in one["uris"]]
    return without_credentials(str(uris[0])) if uris else "a place that you trust"


def _has_password(uris: Any, where: str, errors: PlanErrors) -> bool:
    told = with_password(uris)
    if told:
        errors.add(
            "source.password",
            f"{where} has a user or password in {', '.join(told)}",
            "the address of a source has none: it is in the plan, and in files that every user of a host can read",
            WHERE_LOGINS_BELONG[0].lower() + WHERE_LOGINS_BELONG[1:],
        )
    return bool(told)


def _shown(value: Any) -> str:
    """Return a value of invalid form for a message, without passwords in any addresses it contains."""
    return without_credentials(repr(value))


def _wrong(errors: PlanErrors, where: str, value: Any, expected: str) -> None:
    errors.add("intent.type", f"{where} is {_shown(value)}", f"{where} is {expected}", f"write {where} as {expected}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
