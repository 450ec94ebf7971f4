# SPDX-License-Identifier: Apache-2.0
"""A set of packages with pinned versions: the files that enforce it, and the evaluation of a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..parsers.apt import Step

Pins = Mapping[str, "str | None"]


def differing(packages: Pins, installed: Pins) -> list[str]:
    """Return the packages that are missing or whose version is not the pinned one."""
    return [
        name
        for name, version in sorted(packages.items())
        if installed.get(name) is None or (version is not None and installed[name] != version)
    ]


def apt_words(packages: Pins, names: Iterable[str]) -> list[str]:
    """Return the packages as apt arguments: `name=version`, or `name` if any version will do."""
    return [name if packages[name] is None else f"{name}={packages[name]}" for name in names]


def evaluate(
    steps: Sequence[Step],
    packages: Pins,
    conflicting: Iterable[str],
    never: Iterable[str] = (),
    leaving: Iterable[str] = (),
) -> list[str]:
    """Return the reasons why a simulated transaction is not acceptable; empty if it is.

    Only packages of the set may change version, and only to their pin. A package may be removed only if the set
    conflicts with it (`conflicting` names those) or if it belonged to the set before (`leaving`). Dependencies of the
    set may be installed, but only if they were not installed before, and not if their name is in `never` or starts with
    a name in it and a dash.
    """
    replaced = {*conflicting, *leaving}
    unwanted = tuple(never)
    found = []
    for step in steps:
        pin = packages.get(step.name)
        if step.new is not None and step.name not in packages and named(step.name, unwanted):
            found.append(f"{step.name} {step.new} would be installed, although this set never installs it")
            continue
        if step.new is None:
            if step.name in packages:
                found.append(f"{step.name} would be removed, although it belongs to the set")
            elif step.name not in replaced:
                found.append(f"{step.name} {step.old or ''}".strip() + " would be removed, but is not part of the set")
        elif step.name in packages:
            if pin is not None and step.new != pin:
                found.append(f"{step.name} would be {step.new}, its pin is {pin}")
        elif step.old is not None:
            found.append(f"{step.name} would change from {step.old} to {step.new}, although it is not in the set")
    return found


def going_along(steps: Iterable[Step], packages: Pins, replaced: Iterable[str]) -> list[str]:
    """Return the packages that would be removed but neither belong to the set nor are replaced by it."""
    known = {*packages, *replaced}
    return sorted(step.name for step in steps if step.new is None and step.name not in known)


def named(package: str, names: Iterable[str]) -> bool:
    """Whether the package is one of these, or a branch or flavour of one: nvidia-driver matches nvidia-driver-580."""
    return any(package == name or package.startswith(f"{name}-") for name in names)


def sources_text(header: str, source: Mapping[str, object], keyring: str) -> str:
    """Render a deb822 source; a suite that ends in a slash is a flat repository and has no components."""
    rows = [
        ("Types", ["deb"]),
        ("URIs", _words(source.get("uris"))),
        ("Suites", _words(source.get("suites"))),
        ("Components", _words(source.get("components"))),
        ("Signed-By", [] if source.get("trusted") else [keyring]),
        ("Trusted", ["yes"] if source.get("trusted") else []),
    ]
    return header + "".join(f"{key}: {' '.join(values)}\n" for key, values in rows if values)


def preferences_text(header: str, packages: Pins, origins: Mapping[str, Sequence[str]]) -> str:
    """Render apt preferences that pin each package to its version, and block all other packages of these origins.

    `origins` maps the sites of the set's own sources to the packages that come from there: one of these without a
    pinned version may come from there too.
    """
    sites = {name: origin for origin, names in origins.items() for name in names}
    pins = [
        f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n"
        if version is not None
        else f'Package: {name}\nPin: origin "{sites[name]}"\nPin-Priority: 500\n'
        for name, version in sorted(packages.items())
        if version is not None or name in sites
    ]
    pins += [f'Package: *\nPin: origin "{origin}"\nPin-Priority: -1\n' for origin in sorted(origins)]
    return header + "\n" + "\n".join(pins)


def exclusion_text(header: str, names: Iterable[str]) -> str:
    """Render the unattended-upgrades settings that exclude these packages. The entries are regular expressions."""
    rows = "".join(f'    "^{_escaped(name)}$";\n' for name in sorted(set(names)))
    return f"{header}Unattended-Upgrade::Package-Blacklist {{\n{rows}}};\n"


def _escaped(name: str) -> str:
    # No other character in a package name is special in a regular expression.
    return name.replace(".", "\\.").replace("+", "\\+")


def _words(value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return value.split()
    if isinstance(value, Iterable):
        return [str(one) for one in value]
    raise ValueError(f"{value!r} is neither a string nor a list of strings")
