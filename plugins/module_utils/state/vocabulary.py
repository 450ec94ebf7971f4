# SPDX-License-Identifier: Apache-2.0
"""The one vocabulary in which a host's desired and observed state are written.

Everything here is pure: plain dicts in, plain dicts out. The words of every kind of state are here, but no subject is
imported: how things of a kind are compared and described is registered by the subject's own module when that is
imported, so that a module brings only the kinds it works with to a host. `plugin_utils.comparison` registers all.

Converge, verify, drift and check mode all ask `differences` and nothing else, so they cannot disagree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..text import is_hexadecimal

State = dict[str, Any]
Difference = dict[str, Any]
Peers = Mapping[str, Mapping[str, Any]]
"""Observations of other hosts, by their names."""

UNKNOWN = "unknown"
"""What an observation says of a thing it was not asked about or could not read."""

VOCABULARY: tuple[str, ...] = (
    "packages",
    "holds",
    "files",
    "json_files",
    "sysctl",
    "optional_sysctl",
    "units",
    "default_target",
    "managers",
    "linger",
    "governor",
    "swap",
    "clock",
    "ledgers",
    "links",
    "fabric",
    "rails",
    "rdma",
    "firmware",
    "images",
    "containers",
    "snapshots",
    "venvs",
    "groups",
    "rulesets",
    "driver",
    "cuda",
    "cdi",
    "gpus",
    "gpu_health",
    "distributions",
    "disk_free",
)
"""Every key a desired state may have, in the order differences are reported."""

_FIELDS: dict[str, frozenset[str]] = {
    # packages: of a source, what comes from it; nothing that could differ, but whoever installs has to know.
    "files": frozenset({"content", "sha256", "secret", "same_as", "mode", "owner", "group", "packages"}),
    "json_files": frozenset({"settings", "whole", "mode", "owner", "group"}),
    "units": frozenset({"enabled", "active", "masked", "if_present"}),
    "links": frozenset({"mtu", "addresses", "up"}),
    "rails": frozenset({"port", "cage", "half", "mtu"}),
    "rdma": frozenset({"speed_mbit", "active_mtu", "address", "link_layer"}),
    "images": frozenset({"reference", "requires", "same_as"}),
    "containers": frozenset({"image", "running"}),
    "snapshots": frozenset({"repository", "revision", "selection", "contents", "same_as"}),
    "venvs": frozenset({"lock"}),
    "cuda": frozenset({"version", "compiler"}),
    "cdi": frozenset({"kind"}),
    "ledgers": frozenset({"keeps"}),
    "groups": frozenset({"phase"}),
    "rulesets": frozenset({"loaded"}),
    "firmware": frozenset(),
}
_OWN_FIELDS = {
    "driver": frozenset({"package", "version", "branch", "flavour", "mig", "remove", "kernel_below", "precompiled"}),
    "gpu_health": frozenset({"profile", "hardware", "driver", "accept"}),
}
"""Fields of a thing without a name."""


WHOLE = frozenset({"default_target", "governor", "swap", "clock", "gpus", "gpu_health", "distributions"})
"""Kinds of which a host has one, without a name."""


def root_file(content: str, mode: str = "0644") -> State:
    """A file of this text that belongs to root."""
    return {"content": content, "mode": mode, "owner": "root", "group": "root"}


def root_digest(sha256: str, mode: str = "0644") -> State:
    """A file of root's that is known by its digest: one too long to be carried along with every plan."""
    return {"sha256": sha256, "mode": mode, "owner": "root", "group": "root"}


def root_secret(same_as: str | None = None) -> State:
    """A file only root can read, whose content no plan knows; with `same_as` it must equal that host's."""
    return {"secret": True, "mode": "0600", "owner": "root", "group": "root", "same_as": same_as}


def content_digest(content: str) -> str:
    """The SHA-256 a file with this text has, as the observation reports it."""
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def wanted_digest(want: Mapping[str, Any]) -> str | None:
    """The SHA-256 that a file must have; None where its content is not the plan's to know."""
    if "content" in want:
        return content_digest(want["content"])
    return str(want["sha256"]) if want.get("sha256") else None


def file_mode(mode: object) -> str:
    """A file mode as four octal digits, whether it was written "644", "0644" or 0o644."""
    text = format(mode, "o") if isinstance(mode, int) else str(mode)
    return text.lstrip("0").rjust(4, "0")


def one_spaced(value: object) -> str:
    """A kernel setting with its tabs and runs of spaces made one space, as multi-value settings are read."""
    return " ".join(str(value).split())


def sysctl_path(key: str) -> str:
    """Where the kernel has a setting.

    As sysctl(8) does it: the first separator decides, so that net/ipv4/conf/eth0.1/mtu keeps its dot.
    """
    dot, slash = key.find("."), key.find("/")
    slashed = slash >= 0 and (dot < 0 or slash < dot)
    return f"/proc/sys/{key if slashed else key.replace('.', '/')}"


def peer_digest(path: str, host: str, peers: Peers) -> str | None:
    """The digest that a file has on another host, by that host's observation."""
    entry = ((peers.get(host) or {}).get("files") or {}).get(path) or {}
    digest = entry.get("sha256")
    return str(digest) if digest else None


def check_vocabulary(desired: Mapping[str, Any]) -> None:
    """Refuse a state with a word nobody compares: a misspelt key would otherwise always look right."""
    unknown = sorted(str(key) for key in desired if key not in VOCABULARY)
    if unknown:
        raise ValueError(
            f"desired state has unknown keys {', '.join(unknown)}; known keys are {', '.join(VOCABULARY)}: "
            "correct the spelling or extend the vocabulary"
        )
    for kind, known in _OWN_FIELDS.items():
        strange = sorted(str(field) for field in desired.get(kind) or {} if field not in known)
        if strange:
            raise ValueError(
                f"desired state {kind} has unknown fields {', '.join(strange)}; "
                f"known fields are {', '.join(sorted(known))}: correct the spelling"
            )
    for kind, known in _FIELDS.items():
        for name, item in (desired.get(kind) or {}).items():
            wrong = sorted(str(field) for field in item if field not in known)
            if wrong:
                raise ValueError(
                    f"desired state {kind}[{name}] has unknown fields {', '.join(wrong)}; "
                    f"known fields are {', '.join(sorted(known))}: correct the spelling"
                )


def subjects(desired_by_role: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """What has to be looked at on a host to evaluate these states: sorted names by kind, each once."""
    named: dict[str, set[str]] = {}
    for desired in desired_by_role.values():
        check_vocabulary(desired)
        for kind, items in desired.items():
            bucket = named.setdefault(kind, set())
            if kind == "driver":
                bucket.update(str(items[field]) for field in ("package",) if (items or {}).get(field))
            elif kind not in WHOLE:
                bucket.update(str(name) for name in items or {})
    return {kind: sorted(names) for kind, names in named.items()}


# --- comparing -------------------------------------------------------------------------------------------------------
Compare = Callable[[Any, Mapping[str, Any], Peers], list[Difference]]
Sentence = Callable[[str, Any, Any], str]

_COMPARED: dict[str, Compare] = {}
_SENTENCES: dict[str, Sentence] = {}


def register(
    *,
    named: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], list[Difference]]] | None = None,
    compared: Mapping[str, Compare] | None = None,
    sentences: Mapping[str, Sentence] | None = None,
) -> None:
    """Let kinds of state be compared, and their differences be said.

    `named` compare what is wanted with what is observed under the kind's own name, `compared` with the whole
    observation and with other hosts. A difference without a sentence of its own is said field by field.
    """
    for kind, compare in (named or {}).items():
        _COMPARED[kind] = _of_names(kind, compare)
    _COMPARED.update(compared or {})
    _SENTENCES.update(sentences or {})


def _of_names(kind: str, compare: Callable[[Mapping[str, Any], Mapping[str, Any]], list[Difference]]) -> Compare:
    return lambda wanted, observed, _peers: compare(wanted, observed.get(kind) or {})


def difference(kind: str, key: str, expected: object, observed: object) -> Difference:
    """One thing that is not as it should be."""
    return {"kind": kind, "key": key, "expected": expected, "observed": observed}


def differences(
    desired: Mapping[str, Any],
    observed: Mapping[str, Any],
    peers: Peers | None = None,
) -> list[Difference]:
    """Everything in `desired` that `observed` does not show; empty means the host is right.

    `peers` maps host names to their observations and is only asked for what must equal another host's.
    What the observation does not know counts as different: unknown is never right.
    """
    check_vocabulary(desired)
    found: list[Difference] = []
    for kind in VOCABULARY:
        if desired.get(kind):
            found += _COMPARED[kind](desired[kind], observed, peers or {})
    return found


def explain(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """One sentence a difference, saying what was found and what was expected."""
    return [_sentence(item) for item in found]


def _sentence(item: Mapping[str, Any]) -> str:
    special = _SENTENCES.get(item["kind"])
    if special is not None:
        return special(item["key"], item["expected"], item["observed"])
    return sentence_of_fields(item["kind"], item["key"], item["expected"], item["observed"])


def sentence_of_fields(kind: str, key: str, expected: Any, observed: Any) -> str:
    """What is missing, not installed, or has other values than it should."""
    if isinstance(observed, Mapping) and observed.get("exists", True) is False:
        return f"{kind} {key} is missing, expected it to exist"
    if isinstance(observed, Mapping) and observed.get("load") == "not-found":
        return f"{kind} {key} is not installed, expected {fields_words(expected)}"
    return f"{kind} {key} has {fields_words(observed)}, expected {fields_words(expected)}"


def fields_words(values: object) -> str:
    """Fields and their values, side by side."""
    if not isinstance(values, Mapping):
        return str(values)
    return ", ".join(f"{field} {value_words(value)}" for field, value in values.items())


def value_words(value: object) -> str:
    """A value as people read it; of a digest its first part."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(str(one) for one in value) or "none"
    text = "none" if value is None else str(value)
    return text[:12] if is_hexadecimal(text, 64) else text
