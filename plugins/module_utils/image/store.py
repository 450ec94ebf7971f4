# SPDX-License-Identifier: Apache-2.0
"""Operations on a host's images through Docker: inspect, pull, load, save, build, and check their contents."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from ..engine_venv.lock import Lock, parse_lock
from ..host import RC_TIMEOUT, Host, Result
from ..text import gigabytes
from .archive import archive_contents, archive_ids, labelled_ids, more_in_archive, not_in_archive
from .contents import INSPECT_SCRIPT
from .derive import RAY_LOCK, WHEELS, build_failure, build_words, dockerfile, read_ray_lock
from .image import full_disk, has_digest, image_directory, last_line, pull_failure
from .recipe import (
    LOCK,
    PACKAGES,
    RECIPE_LABEL,
    STAGE_LABEL,
    Recipe,
    Sources,
    missing_wheels,
    recipe_digest,
    recipe_dockerfile,
    recipe_failure,
)

LOAD_TIMEOUT = 3600
SAVE_TIMEOUT = 3600
BUILD_TIMEOUT = 3600
CONTEXTS = "/var/tmp"  # noqa: S108 - a private directory below it; /tmp may be in memory and too small for the wheels
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Passed to a build; Docker keeps these out of the image."""
MEMBER_LIMIT = 64 << 20
"""Maximum size of a manifest or configuration; protects against reading a mislabelled layer into memory."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")
"""Member names of an image archive; compressed files, which Docker would decompress first, never start like this."""


class ImageError(Exception):
    """Why the image cannot be used, for the operator."""


class DiskFullError(ImageError):
    """The disk filled up despite the check beforehand."""


def inspect(host: Host, name: str, check_mode: bool = False) -> dict[str, Any] | None:
    """Inspect an image; None if it does not exist. In check mode Docker itself may not be installed yet."""
    result = host.run(["docker", "image", "inspect", name], timeout=60)
    if result.ok:
        entry = json.loads(result.stdout)[0]
        return dict(entry)
    if check_mode or "no such image" in result.stderr.lower():
        return None
    raise ImageError(
        f"Docker does not answer ({result.summary}), expected a running engine: run container_runtime first"
    )


def identity(entry: Mapping[str, Any] | None) -> str:
    """Return the image's id; empty without an image."""
    return str(entry["Id"]) if entry else ""


def label_of(entry: Mapping[str, Any] | None, name: str) -> str:
    """Return a label of an image; empty if it has none."""
    return str((((entry or {}).get("Config") or {}).get("Labels") or {}).get(name) or "")


def data_root(host: Host) -> str:
    """Return where Docker stores its images."""
    result = host.run(["docker", "info", "--format={{.DockerRootDir}}\t{{json .DriverStatus}}"], timeout=60)
    return image_directory(result.stdout if result.ok else "")


def pull(host: Host, reference: str, digest: str, timeout: int) -> None:
    """Pull the image and verify its digest."""
    result = host.run(["docker", "pull", "--quiet", reference], timeout=timeout)
    if not result.ok:
        root = data_root(host)
        raise ImageError(pull_failure(reference, root, _output(result), host.disk_free(root)))
    found = inspect(host, reference)
    if found is None or not has_digest(found.get("RepoDigests") or [], digest):
        raise ImageError(
            f"image {reference} was pulled but Docker lists no image with digest {digest}: "
            "remove it (docker image rm) and run again"
        )


def tag(host: Host, source: str, name: str) -> None:
    """Give an image another name."""
    result = host.run(["docker", "tag", source, name], timeout=60)
    if not result.ok:
        raise ImageError(f"image {source} cannot be tagged {name}: {result.summary}; see `docker image ls` on the host")


def ids_in_archive(reference: str, path: str, recipe: str = "") -> list[str]:
    """Return ids that the pinned image, or one built from the recipe with this digest, can have once it is loaded.

    Refuses an archive of another image, and one from which Docker would load more than this.
    """
    found, others, contents = images_in_archive(path, reference.partition("@")[2], recipe)
    if not found:
        raise ImageError(not_in_archive(reference, path, contents))
    if others:
        raise ImageError(more_in_archive(reference, path, others))
    return found


def images_in_archive(path: str, digest: str, recipe: str = "") -> tuple[list[str], list[str], list[str]]:
    """Return the ids of the image with this digest or built from this recipe, the other images, and all digests."""
    try:
        with tarfile.open(path, "r:*") as archive:
            members = _members(archive)

            def read(name: str) -> bytes | None:
                return _document(archive, members.get(name), name)

            built = labelled_ids(read, RECIPE_LABEL, recipe) if recipe else ([], [])
            found, others = built if built[0] else archive_ids(read, digest)
            return found, others, archive_contents(read)
    except (OSError, tarfile.TarError, EOFError, ValueError) as error:
        reason = "it is not a complete tar archive"
        if isinstance(error, ValueError) or getattr(error, "strerror", None):
            reason = getattr(error, "strerror", None) or str(error)
        raise ImageError(
            f"archive {path} cannot be read ({reason}), expected what `docker save` writes: check the path, "
            "and that it was copied completely; nothing was loaded"
        ) from error


def _members(archive: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Return the members by name; refuse an archive that Docker, with rules of its own, could read differently."""
    found: dict[str, tarfile.TarInfo] = {}
    for member in archive.getmembers():
        name = member.name.removeprefix("./")
        if name in ("", ".") and member.isdir():
            continue
        if not _NAME.fullmatch(name) or not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise ValueError(f"it has a member {name[:80]!r}, which no image has")
        # Older releases save a layer that two images share once, and link to it from the other image.
        if not (member.isfile() or member.isdir() or (member.issym() and name.endswith("/layer.tar"))):
            raise ValueError(f"its member {name[:80]} is a link or a device, which no image has")
        if name in found and not (member.isdir() and found[name].isdir()):
            raise ValueError(f"it has two members {name[:80]}")
        found[name] = member
    return found


def _document(archive: tarfile.TarFile, member: tarfile.TarInfo | None, name: str) -> bytes | None:
    if member is None:
        return None
    stream = archive.extractfile(member) if member.isfile() and member.size <= MEMBER_LIMIT else None
    if stream is None:
        raise ValueError(f"its {name[:80]} is not a document")
    return stream.read()


def load(host: Host, reference: str, path: str) -> None:
    """Let Docker load an archive."""
    result = host.run(["docker", "load", "--quiet", f"--input={path}"], timeout=LOAD_TIMEOUT)
    if not result.ok:
        root, output = data_root(host), _output(result)
        full = full_disk(reference, root, output, host.disk_free(root))
        if full:
            raise DiskFullError(full)
        raise ImageError(
            f"archive {path} cannot be loaded: {last_line(output)}; check that it was copied completely, and run again"
        )


def save(host: Host, name: str, path: str) -> None:
    """Save an image to a file, which appears only when it is complete."""
    partial = f"{path}.partial"
    result = host.run(["docker", "save", f"--output={partial}", name], timeout=SAVE_TIMEOUT)
    if not result.ok:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        free = gigabytes(host.disk_free(os.path.dirname(path)))
        raise ImageError(
            f"image {name} cannot be written to {path} ({last_line(_output(result))}), {free} are free there: free "
            "space, and run again"
        )
    os.replace(partial, path)


def versions(host: Host, name: str, wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Ask the image's own Python for versions; nothing else of the image is run, and without a network."""
    container = f"firstlight-image-{os.getpid()}"
    options = ["--rm", f"--name={container}", "--network=none", "--pull=never", "--entrypoint=python3"]
    result = host.run(["docker", "run", *options, name, "-c", INSPECT_SCRIPT, *sorted(wanted)], timeout=300)
    if result.rc == RC_TIMEOUT:
        # The timeout ended only Docker's client, not the container.
        host.run(["docker", "rm", "--force", container], timeout=60)
    if not result.ok:
        raise ImageError(
            f"image {name} cannot be queried for its contents ({result.summary}), expected a Python 3 in it: "
            "check that it is the engine's image and that its architecture is this host's"
        )
    try:
        found: dict[str, str | None] = json.loads(result.stdout.strip().rpartition("\n")[2])
    except ValueError as error:
        raise ImageError(
            f"image {name} was queried for its contents and printed {last_line(_output(result))!r}, expected versions: "
            "check that it is the engine's image"
        ) from error
    return found


def add_ray(host: Host, base: Mapping[str, Any], names: tuple[str, str], ray: str, sources: Mapping[str, str]) -> None:
    """Build the image with Ray, named `names[1]`, on the image named `names[0]`.

    `sources` has the `lock`, and `wheels`, a directory of this host, or `index`, the URL of a package index; these two
    may be empty.
    """
    wheels, lock = sources.get("wheels") or "", read_ray_lock(ray, sources.get("lock") or "")
    user = str((base.get("Config") or {}).get("User") or "")
    with tempfile.TemporaryDirectory(prefix="firstlight-image-") as context:
        text = dockerfile(names[0], ray, user, bool(wheels), sources.get("index") or "")
        for file, content in (("Dockerfile", text), (RAY_LOCK, sources["lock"])):
            with open(os.path.join(context, file), "w", encoding="utf-8") as stream:
                stream.write(content)
        if wheels:
            _take_wheels(wheels, os.path.join(context, WHEELS), lock)
        result = _build(host, context, names[1], offline=bool(wheels))
    if not result.ok:
        root, output = data_root(host), _output(result)
        raise ImageError(
            full_disk(names[1], root, output, host.disk_free(root))
            or build_failure(names[0], ray, build_words(output), wheels)
        )


def build_recipe(
    host: Host, recipe: Recipe, base: Mapping[str, Any], name: str, sources: Sources, timeout: int
) -> None:
    """Build the image of a recipe as `name`, on the `base` that is here under the recipe's name for it."""
    user = str((base.get("Config") or {}).get("User") or "")
    with tempfile.TemporaryDirectory(prefix="firstlight-image-", dir=CONTEXTS) as context:
        for file, text in (("Dockerfile", recipe_dockerfile(recipe, sources, user)), (LOCK, recipe.lock)):
            with open(os.path.join(context, file), "w", encoding="utf-8") as stream:
                stream.write(text)
        if sources.wheels:
            found = _take(sources.wheels, os.path.join(context, WHEELS), ".whl", "inference_image_build_wheels")
            missing = missing_wheels(parse_lock(recipe.lock), found)
            if missing:
                raise ImageError(
                    f"{sources.wheels} lacks {len(missing)} of the wheels of recipe {recipe.name}, {missing[0]} first: "
                    "download all of its lock there (docs/image.md), on the head"
                )
        if sources.packages and recipe.packages:
            taken = _take(sources.packages, os.path.join(context, PACKAGES), ".deb", "inference_image_build_packages")
            if not taken:
                raise ImageError(
                    f"{sources.packages} holds no package (*.deb), expected {', '.join(recipe.packages)} and all "
                    "dependencies: download them there (docs/image.md), on the head"
                )
        more = [f"--build-arg=SOURCE_DATE_EPOCH={recipe.epoch}"]
        result = _build(host, context, name, offline=sources.offline(recipe), more=more, timeout=timeout)
    if sources.wheels:
        # Docker's legacy builder keeps the stage with the wheels as an untagged image.
        kept = ["--force", f"--filter=label={STAGE_LABEL}={recipe_digest(recipe)}"]
        host.run(["docker", "image", "prune", *kept], timeout=300)
    if not result.ok:
        root, output = data_root(host), _output(result)
        raise ImageError(
            full_disk(name, root, output, host.disk_free(root)) or recipe_failure(recipe, build_words(output), sources)
        )


def _build(
    host: Host, context: str, name: str, *, offline: bool, more: Sequence[str] = (), timeout: int = BUILD_TIMEOUT
) -> Result:
    # Without values: Docker reads them from the environment, so a password in them does not show in the process list.
    proxies = [f"--build-arg={name}" for name in PROXIES if os.environ.get(name)]
    ways = ["--network=none"] if offline else ["--network=host", *proxies]
    argv = ["docker", "build", "--quiet", "--pull=false", "--force-rm", *ways, *more, f"--tag={name}", context]
    return host.run(argv, timeout=timeout)


def _take(directory: str, target: str, ending: str, variable: str) -> list[str]:
    """Put the files with this suffix where the build finds them, as hard links if possible."""
    os.mkdir(target)
    try:
        found = sorted(name for name in os.listdir(directory) if name.endswith(ending))
        for name in found:
            source, place = os.path.join(directory, name), os.path.join(target, name)
            try:
                os.link(source, place)
            except OSError:
                shutil.copyfile(source, place)
    except OSError as error:
        kind = "wheels" if ending == ".whl" else "packages"
        raise ImageError(
            f"the {kind} in {directory} cannot be read ({error.strerror}): put them there, on the head, or leave "
            f"{variable} empty"
        ) from error
    return found


def _take_wheels(directory: str, target: str, lock: Lock) -> None:
    """Put Ray's locked wheels, and no others, where the build finds them: pip's runs before it verifies any hash."""
    right = {digest for digests in lock.hashes.values() for digest in digests}
    found = []
    for name in _take(directory, target, ".whl", "inference_image_ray_wheels"):
        digest = hashlib.sha256()
        with open(os.path.join(target, name), "rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
        if digest.hexdigest() in right:
            found.append(name)
        else:
            os.unlink(os.path.join(target, name))
    missing = missing_wheels(lock, found)
    if missing:
        raise ImageError(
            f"{directory} lacks {len(missing)} of the wheels of Ray's lock, or has them with other bytes, such as "
            f"{missing[0]}: download all of the lock there (docs/image.md), on the head"
        )


def _output(result: Result) -> str:
    return f"{result.stdout}\n{result.stderr}\n{result.problem}"
