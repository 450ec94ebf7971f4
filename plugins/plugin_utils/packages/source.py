# SPDX-License-Identifier: Apache-2.0
"""The APT files of one set of pinned packages: sources, preferences, and the exclusion from unattended-upgrades.

Every role that pins packages has files named after it. The keyring is named after its key instead: apt rejects two
sources of one repository with different keyrings, and driver and toolkit often come from the same repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_set import (
    Pins,
    exclusion_text,
    preferences_text,
    sources_text,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import root_file

from .openpgp import fingerprints, keyring, plain_fingerprint

WHERE_LOGINS_BELONG = "Write them on the hosts into a file of mode 0600 in /etc/apt/auth.conf.d (`man apt_auth.conf`)"

_FIELDS = frozenset({"uris", "suites", "components", "key", "key_file", "fingerprint", "origin", "trusted"})
_NAMED = frozenset({"name", "packages"})
"""Additional fields for a set with several sources."""


def source_path(name: str) -> str:
    """Return the path of the deb822 source of a set."""
    return f"/etc/apt/sources.list.d/firstlight-{name}.sources"


def preferences_path(name: str) -> str:
    """Return the path of the APT preferences of a set.

    Of several records for all packages of one origin, apt uses the first it reads, with files in the order of their
    names. NVIDIA's cuda-keyring installs cuda-repository-pin-600, which has such a record: ours must sort before it.
    """
    return f"/etc/apt/preferences.d/00-firstlight-{name}"


def exclusion_path(name: str) -> str:
    """Return the path of the file that excludes a set from unattended-upgrades."""
    return f"/etc/apt/apt.conf.d/52firstlight-{name}"


def keyring_path(fingerprint: str) -> str:
    """Return the path of the keyring with this key."""
    return f"/etc/apt/keyrings/firstlight-{fingerprint}.asc"


def with_password(uris: Any) -> list[str]:
    """Return the URIs that contain a user or a password, with both masked.

    Apt takes everything up to the first slash as user and host; a # or ? does not end it.
    """
    found = []
    for uri in " ".join(_list(uris)).split():
        scheme, slashes, rest = uri.partition("//")
        place, slash, path = rest.partition("/")
        if slashes and "@" in place:
            found.append(f"{scheme}//****@{place.rpartition('@')[2]}{slash}{path}")
    return found


def refuse_password(variable: str, source: Mapping[str, Any] | None) -> None:
    """Raise ValueError for a source with credentials in a URI, as its file would be readable by every user."""
    told = with_password((source or {}).get("uris"))
    if told:
        raise ValueError(
            f"{variable} has a user or password in {', '.join(told)}, expected addresses without: they are in files "
            f"that every user of a host can read. {WHERE_LOGINS_BELONG}"
        )


def set_files(
    role: str, name: str, pins: Pins, held: Iterable[str], sources: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the files of a set: the exclusion always, preferences if there are pins, and the given sources.

    If there are several, a source has a `name` and lists the `packages` of the set that come from it; one without
    these provides the whole set. The file of a source lists them under `packages`, for the installing module.
    """
    text = f"Managed by Firstlight (role {role}): changes here are overwritten."
    header = f"# {text}\n"
    files = {exclusion_path(name): root_file(exclusion_text(f"// {text}\n", held))}
    origins: dict[str, list[str]] = {}
    for source in sources:
        own = _packages_of(f"{role}_sources", source, pins)
        label = f"{name}-{source['name']}" if source.get("name") else name
        plain = {field: value for field, value in source.items() if field not in _NAMED}
        variable = f"{role}_sources.{source['name']}" if source.get("name") else f"{role}_source"
        files |= _source_files(header, variable, label, plain)
        files[source_path(label)]["packages"] = own
        origins.setdefault(_origin(plain), []).extend(own)
    if any(pins.values()) or (origins and pins):
        files[preferences_path(name)] = root_file(preferences_text(header, pins, origins))
    return files


def _packages_of(variable: str, source: Mapping[str, Any], pins: Pins) -> list[str]:
    listed = source.get("packages")
    if listed is None:
        return sorted(pins)
    strange = sorted({str(one) for one in listed} - set(pins))
    if strange:
        raise ValueError(
            f"{variable} has {', '.join(strange)} among the packages of {source.get('name')}, expected packages of the "
            f"set ({', '.join(sorted(pins)) or 'none'}): correct the names, or add them to the set"
        )
    return sorted(str(one) for one in listed)


def _source_files(header: str, variable: str, name: str, source: Mapping[str, Any]) -> dict[str, Any]:
    strange = sorted(str(field) for field in source if field not in _FIELDS)
    if strange:
        raise ValueError(
            f"{variable} has unknown fields {', '.join(strange)}; known fields are {', '.join(sorted(_FIELDS))}: "
            "correct the spelling"
        )
    for field in ("uris", "suites"):
        if not source.get(field):
            raise ValueError(f"{variable} has no {field}: give them as in apt's sources (a flat one has './')")
    refuse_password(variable, source)
    if source.get("trusted"):
        if any(urlsplit(uri).scheme != "file" for uri in _list(source["uris"])):
            raise ValueError(
                f"{variable} is trusted without a signature, which is only allowed for file: on the host itself: give "
                "key and fingerprint for anything that comes over a network"
            )
        return {source_path(name): root_file(sources_text(header, source, ""))}
    key = str(source.get("key") or "")
    pinned = {plain_fingerprint(one) for one in _list(source.get("fingerprint"))}
    if not key.strip() or not pinned:
        raise ValueError(
            f"{variable} needs key (or key_file) and fingerprint: give the repository's public key and the fingerprint "
            "you know it by from elsewhere"
        )
    found = fingerprints(key)
    foreign = [one for one in found if one not in pinned]
    if foreign:
        raise ValueError(
            f"the repository's key has the fingerprint {' and '.join(foreign)}, "
            f"expected {' or '.join(sorted(pinned))}: this is not the key you pinned. Find out which of the two is "
            "right before you change the pin"
        )
    path = keyring_path(found[0])
    return {
        path: root_file(keyring(key)),
        source_path(name): root_file(sources_text(header, source, path)),
    }


def _origin(source: Mapping[str, Any]) -> str:
    """Return the origin (site) by which apt identifies packages of this source; empty for a local directory."""
    return str(source.get("origin") or urlsplit(_list(source["uris"])[0]).hostname or "")


def _list(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    return [str(one) for one in value or ()]
