# SPDX-License-Identifier: Apache-2.0
"""The recipe an image is built from: a base by digest, packages as of one day, every wheel by hash.

The recipe's own digest identifies the image, like a registry's digest does for a published one. It covers what goes
into the image and not where that comes from, so a mirror, a directory and the public index give an image of the same
name.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..engine_venv.lock import Lock, LockError, normal_name, parse_lock, same_version
from .derive import WHEELS
from .image import DIGEST_TO_SUPPLY, split_reference

FORMAT = 1
"""Version of the output of `recipe_dockerfile`; a new one gives the same recipes different images."""

REPOSITORY = "firstlight/recipe"
"""Prefix of the reference of a built image, in place of a registry's repository."""
BASE_REPOSITORY = "firstlight/base"
"""Local name of a base on the host that builds on it, however it was obtained."""

RECIPE_LABEL = "io.firstlight.recipe"
STAGE_LABEL = "io.firstlight.stage"
"""Label of images that are only needed during a build."""

ENVIRONMENT = "/opt/engine"
"""The virtual environment inside the image; first in its PATH."""
LOCK, PACKAGES = "engine.lock", "packages"
"""A file and a directory of the build context; `WHEELS` is another."""
_LOCK_IN_IMAGE = f"/opt/{LOCK}"
_WHEELS_IN_STAGE = f"/tmp/firstlight-{WHEELS}"  # noqa: S108 - inside an image that is being built
_PACKAGES_IN_IMAGE = f"/tmp/firstlight-{PACKAGES}"  # noqa: S108 - inside an image that is being built
_APT_LIST = "/etc/apt/firstlight.list"

BUILD_ROOM = 6
"""Build space as a multiple of the wheels' size: the wheels, and twice their unpacked size if from a directory."""
ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
"""The kernel's name -> the name used by Docker and Debian."""

_SNAPSHOT = re.compile(r"\d{8}T\d{6}Z")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_A_VALUE = frozenset("\"'\\$`\n\r")


@dataclass(frozen=True)
class Apt:
    """The Ubuntu archive as of one day, from which packages are installed."""

    uri: str
    snapshot: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    keyring: str

    @property
    def lines(self) -> list[str]:
        """Return the lines of a sources.list."""
        options = f"[signed-by={self.keyring} check-valid-until=no]"  # it was valid on that day
        rest = f"{self.uri}/{self.snapshot} {{}} {' '.join(self.components)}"
        return [f"deb {options} {rest.format(suite)}" for suite in self.suites]


@dataclass(frozen=True)
class Recipe:
    """What an image is made of."""

    name: str
    base: str
    architecture: str
    python: str
    lock: str
    packages: tuple[str, ...] = ()
    apt: Apt | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def base_name(self) -> str:
        """Local name of the base on the host that builds on it."""
        return f"{BASE_REPOSITORY}:{split_reference(self.base)[1].replace(':', '-')}"

    @property
    def epoch(self) -> int:
        """The day of the package archive as seconds since 1970; 0 without packages."""
        if self.apt is None:
            return 0
        day = dt.datetime.strptime(self.apt.snapshot, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.timezone.utc)
        return int(day.timestamp())


@dataclass(frozen=True)
class Sources:
    """Where the building host gets everything; if empty, from the recipe's archive and pip's default index."""

    wheels: str = ""
    packages: str = ""
    index: str = ""

    def offline(self, recipe: Recipe) -> bool:
        """Whether the build fetches nothing from a network."""
        return bool(self.wheels) and (bool(self.packages) or not recipe.packages)


def read_recipe(given: Mapping[str, Any]) -> Recipe:
    """Parse a recipe from plain data. Raises ValueError that names the invalid field."""

    def text(key: str, pattern: re.Pattern[str] | None = None) -> str:
        value = str(given.get(key) or "")
        if not value or (pattern and not pattern.fullmatch(value)):
            raise ValueError(f"{key} is {value!r}, expected {_EXPECTED[key]}")
        return value

    def words(source: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
        found = source.get(key) or []
        if isinstance(found, str) or not isinstance(found, Sequence) or not all(map(_is_word, found)):
            raise ValueError(f"{where} is {found!r}, expected a list of names")
        return tuple(str(one) for one in found)

    architecture = text("architecture")
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture is {architecture!r}, expected {_EXPECTED['architecture']}")
    split_reference(text("base"))
    packages = words(given, "packages", "packages")
    apt = given.get("apt")
    if packages and not isinstance(apt, Mapping):
        raise ValueError(f"apt is {apt!r} with packages to install, expected the archive they come from")
    environment = given.get("environment") or {}
    for name, value in environment.items():
        if not _VARIABLE.fullmatch(str(name)) or _NOT_IN_A_VALUE & set(str(value)):
            raise ValueError(f"environment has {name}: {value!r}, expected a name and a value without quotes or $")
    return Recipe(
        name=text("name", _NAME),
        base=text("base"),
        architecture=architecture,
        python=text("python", re.compile(r"3\.\d+")),
        lock=text("lock"),
        packages=packages,
        apt=_read_apt(apt, words) if packages and isinstance(apt, Mapping) else None,
        environment={str(name): str(value) for name, value in environment.items()},
    )


_EXPECTED = {
    "name": "lowercase letters, digits, dots and dashes",
    "base": "REPOSITORY@sha256:<64 hexadecimal digits>",
    "architecture": " or ".join(ARCHITECTURES),
    "python": "a release like 3.12",
    "lock": "the text of a lock, every wheel by hash",
}


def _read_apt(given: Mapping[str, Any], words: Any) -> Apt:
    uri, snapshot, keyring = (str(given.get(key) or "") for key in ("uri", "snapshot", "keyring"))
    if not re.fullmatch(r"https?://[A-Za-z0-9.:/_-]+[A-Za-z0-9]", uri):
        raise ValueError(f"apt.uri is {uri!r}, expected an http or https address without a user and a final slash")
    if not _SNAPSHOT.fullmatch(snapshot):
        raise ValueError(f"apt.snapshot is {snapshot!r}, expected a time like 20261101T000000Z")
    if not re.fullmatch(r"/[A-Za-z0-9./_-]+", keyring):
        raise ValueError(f"apt.keyring is {keyring!r}, expected the path of a keyring in the base")
    suites, components = (words(given, key, f"apt.{key}") for key in ("suites", "components"))
    if not suites or not components:
        raise ValueError(f"apt has suites {suites} and components {components}, expected at least one of each")
    return Apt(uri, snapshot, suites, components, keyring)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(_WORD.fullmatch(value))


def recipe_digest(recipe: Recipe) -> str:
    """Return the digest of a recipe; the placeholder while the base has no digest yet."""
    base = split_reference(recipe.base)[1]
    if base == DIGEST_TO_SUPPLY:
        return DIGEST_TO_SUPPLY
    apt = recipe.apt
    made_of = {
        "format": FORMAT,
        "base": base,
        "architecture": recipe.architecture,
        "python": recipe.python,
        "packages": sorted(recipe.packages),
        # Archive and day, but not the mirror.
        "apt": [apt.snapshot, list(apt.suites), list(apt.components)] if apt else None,
        "environment": dict(recipe.environment),
        "lock": hashlib.sha256(recipe.lock.encode()).hexdigest(),
    }
    return f"sha256:{hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()}"


def recipe_reference(recipe: Recipe) -> str:
    """Return the reference of the recipe's image, in place of a registry's reference."""
    return f"{REPOSITORY}/{recipe.name}@{recipe_digest(recipe)}"


def recipe_of(reference: str) -> str:
    """Return the recipe name in a reference; empty for a registry's reference."""
    return reference.partition("@")[0].removeprefix(f"{REPOSITORY}/") if reference.startswith(f"{REPOSITORY}/") else ""


def lock_problems(recipe: Recipe, wanted: Mapping[str, str]) -> list[str]:
    """Return one sentence for each mismatch between the lock and the recipe, or the stack's versions.

    `wanted` has versions by distribution; those that are not in the lock can only be checked in the image.
    """
    try:
        lock = parse_lock(recipe.lock, "its lock")
    except LockError as error:
        return [str(error)]
    pairs = [("architecture", lock.architecture, recipe.architecture), ("Python", lock.python, recipe.python)]
    problems = [f"its lock is for {what} {have}, expected {want}" for what, have, want in pairs if have != want]
    for name, version in sorted(wanted.items()):
        have = lock.packages.get(normal_name(name))
        if have is not None and not same_version(version, have):
            problems.append(f"its lock has {name} {have}, expected {version} as in the stack")
    return problems


def missing_wheels(lock: Lock, files: Iterable[str]) -> list[str]:
    """Return packages of a lock for which a directory has no wheel of that version, as NAME==VERSION."""
    have: dict[str, list[str]] = {}
    for file in files:
        name, _, rest = file.partition("-")
        if file.endswith(".whl"):
            have.setdefault(normal_name(name), []).append(rest.partition("-")[0])
    return [
        f"{name}=={version}"
        for name, version in lock.packages.items()
        if not any(same_version(version, one) for one in have.get(name, ()))
    ]


def wheels_bytes(recipe: Recipe) -> int:
    """Return the total size of the wheels; 0 if the lock does not state it."""
    return parse_lock(recipe.lock).wheels_bytes


def recipe_dockerfile(recipe: Recipe, sources: Sources, user: str = "") -> str:
    """Render the Dockerfile of a recipe.

    Wheels from a directory are copied into a stage of their own, because a layer keeps its size even if a later layer
    deletes its files. `user` is the base's user; the installation runs as root.
    """
    if "@" in sources.index:
        raise ValueError(
            "inference_image_build_index has a user or password in it, which would stay in the image: remove them, "
            "and provide the wheels in a directory of the head (inference_image_build_wheels)"
        )
    digest = recipe_digest(recipe)
    # BuildKit dates the image by it, and Python then compiles files whose contents do not depend on timestamps.
    epoch = f"ARG SOURCE_DATE_EPOCH={recipe.epoch}"
    begin = [*(["USER root"] if user else []), epoch, *_packages(recipe, sources)]
    if sources.wheels:
        lines = [
            f"FROM {recipe.base_name} AS packages",
            *begin,
            "FROM packages AS wheels",
            f"LABEL {STAGE_LABEL}={digest}",
            epoch,
            f"COPY {LOCK} {_LOCK_IN_IMAGE}",
            f"COPY {WHEELS}/ {_WHEELS_IN_STAGE}/",
            *_install(recipe, ["--no-index", f"--find-links={_WHEELS_IN_STAGE}"], carried=True),
            "FROM packages",
            f"COPY --from=wheels {ENVIRONMENT} {ENVIRONMENT}",
            f"COPY {LOCK} {_LOCK_IN_IMAGE}",
        ]
    else:
        index = [f"--index-url={sources.index}"] if sources.index else []
        installed = _install(recipe, index, carried=False)
        lines = [f"FROM {recipe.base_name}", *begin, f"COPY {LOCK} {_LOCK_IN_IMAGE}", *installed]
    lines += [
        f"ENV VIRTUAL_ENV={ENVIRONMENT}",
        f"ENV PATH={ENVIRONMENT}/bin:$PATH",
        *(f'ENV {name}="{value}"' for name, value in sorted(recipe.environment.items())),
        f"LABEL {RECIPE_LABEL}={digest}",
        f"LABEL {RECIPE_LABEL}.name={recipe.name}",
        f"LABEL {RECIPE_LABEL}.base={split_reference(recipe.base)[1]}",
        "ENTRYPOINT []",
        *([f"USER {user}"] if user else []),
    ]
    return "\n".join(lines) + "\n"


def _packages(recipe: Recipe, sources: Sources) -> list[str]:
    """Install packages from the archive of that day only, ignoring the base's other sources, or from a directory."""
    if not recipe.packages or recipe.apt is None:
        return []
    install = "apt-get install --yes --no-install-recommends"
    names = shlex.join(sorted(recipe.packages))
    only = "-o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::SourceList="
    if sources.packages:
        return [
            f"COPY {PACKAGES}/ {_PACKAGES_IN_IMAGE}/",
            f"RUN DEBIAN_FRONTEND=noninteractive {install} {only}/dev/null {_PACKAGES_IN_IMAGE}/*.deb \\",
            # A directory that lacks one of them would produce a different image of the same name.
            f"    && dpkg --status {names} >/dev/null \\",
            f"    && rm -rf {_PACKAGES_IN_IMAGE}",
        ]
    listed = " ".join(shlex.quote(line) for line in recipe.apt.lines)
    return [
        f"RUN printf '%s\\n' {listed} > {_APT_LIST} \\",
        f"    && apt-get update {only}{_APT_LIST} \\",
        f"    && DEBIAN_FRONTEND=noninteractive {install} {only}{_APT_LIST} {names} \\",
        "    && rm -rf /var/lib/apt/lists/*",
    ]


def _install(recipe: Recipe, options: Sequence[str], carried: bool) -> list[str]:
    """Install every wheel of the lock, checked against its hash, and nothing else.

    Python's own pip does it; if it may be `carried` and Python has no ensurepip, pip runs from inside its wheel.
    """
    python = f"{ENVIRONMENT}/bin/python"
    found = [
        f"    && if {python} -c 'import ensurepip' 2>/dev/null; then \\",
        f'         {python} -m ensurepip && pip="-m pip"; \\',
        "       else \\",
        f"         pip=$(echo {_WHEELS_IN_STAGE}/pip-*.whl)/pip; \\",
        "       fi \\",
    ]
    rules = "--require-hashes --no-deps --only-binary=:all: --no-cache-dir --disable-pip-version-check"
    wanted = shlex.join([*options, "--requirement", _LOCK_IN_IMAGE])
    return [
        f"RUN python{recipe.python} -m venv {'--without-pip ' if carried else ''}{ENVIRONMENT} \\",
        *(found if carried else []),
        f"    && {python} {'$pip' if carried else '-m pip'} install {rules} {wanted}",
    ]


def wrong_architecture(recipe: Recipe, found: str) -> str | None:
    """Return why a base of the architecture that Docker reports cannot be built on; None if it can."""
    expected = ARCHITECTURES[recipe.architecture]
    if found in ("", expected):
        return None
    return (
        f"base {recipe.base} is for {found}, recipe {recipe.name} builds for {expected}: pin the base's digest for "
        f"linux/{expected} (`docker buildx imagetools inspect` lists one for each platform)"
    )


def recipe_failure(recipe: Recipe, said: str, sources: Sources) -> str:
    """Return the message for a failed build."""
    needs = []
    if recipe.packages and not sources.packages and recipe.apt:
        needs.append(f"{recipe.apt.uri}, or has its packages in a directory (inference_image_build_packages)")
    if not sources.wheels:
        index = sources.index or "a package index (inference_image_build_index)"
        needs.append(f"{index}, or has the wheels in a directory (inference_image_build_wheels)")
    remedy = (
        f"check that the head reaches {', and '.join(needs)}"
        if needs
        else f"check that {sources.wheels} holds the wheels of the recipe's lock, intact, and pip's own where the "
        "base's Python has no ensurepip"
    )
    return f"recipe {recipe.name} cannot be built on {recipe.base}: {said}; {remedy}"
