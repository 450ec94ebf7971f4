# SPDX-License-Identifier: Apache-2.0
"""What an image must contain before anything is launched from it, and how a failed download is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from .words import gigabytes, is_hexadecimal, said_lines

INSPECT_SCRIPT = (
    "import importlib.metadata as m, json, sys\n"
    "found = {}\n"
    "for name in sys.argv[1:]:\n"
    "    try:\n"
    "        found[name] = m.version(name)\n"
    "    except m.PackageNotFoundError:\n"
    "        found[name] = None\n"
    "print(json.dumps(found))\n"
)
"""Run inside the image with names of distributions; asks Python itself and imports nothing heavy."""

RAY_LEFT_OUT = "vLLM images from 0.18 on ship without it"

ROOM = 1.1
"""Layers are unpacked while others are still being fetched, so a little more than the size is needed."""


def split_reference(reference: str) -> tuple[str, str]:
    """Repository and digest of a pinned reference."""
    repository, separator, digest = reference.partition("@")
    kind, _, hexadecimal = digest.partition(":")
    if not (repository and separator and kind == "sha256" and is_hexadecimal(hexadecimal, 64)):
        raise ValueError(
            f"image reference is {reference!r}, expected REPOSITORY@sha256:<64 hexadecimal digits>: "
            "a tag can point at other bytes tomorrow"
        )
    return repository, digest


def has_digest(repo_digests: Sequence[str], digest: str) -> bool:
    """Whether Docker knows the image under this digest; it shortens repository names, never a digest."""
    return any(entry.partition("@")[2] == digest for entry in repo_digests)


def same_version(found: str, expected: str) -> bool:
    """Equal, but for a local build label (0.32.0+cu130) that the pin does not ask for."""
    return found == expected or ("+" not in expected and found.partition("+")[0] == expected)


def content_problems(reference: str, found: Mapping[str, str | None], requires: Mapping[str, str]) -> list[str]:
    """One sentence for each distribution that is missing or of another version."""
    problems = []
    for name in sorted(requires):
        expected, have = str(requires[name]), found.get(name)
        if have is None and name == "ray":
            problems.append(
                f"image {reference} has no ray ({RAY_LEFT_OUT}); expected ray {expected}; "
                f"use an image with Ray added, e.g. a derived image built FROM it with "
                f'RUN uv pip install --system "ray=={expected}", and pin that one'
            )
        elif have is None:
            problems.append(
                f"image {reference} has no {name}; expected {name} {expected}; choose the image the stack was made for"
            )
        elif not same_version(have, expected):
            problems.append(
                f"image {reference} has {name} {have}; expected {name} {expected}; "
                "correct the pin in the stack or choose the image it was made for"
            )
    return problems


def proof_text(reference: str, requires: Mapping[str, str]) -> str:
    """What a host keeps once this image was found to have all of these; other requirements make another text."""
    proven = {"image": reference, "requires": {name: str(version) for name, version in requires.items()}}
    return json.dumps(proven, indent=2, sort_keys=True) + "\n"


def names_image(proof: str, reference: str) -> bool:
    """Whether the record of a check is about this image, whatever was asked of it."""
    return json.dumps(reference) in proof


def needed_bytes(size_bytes: int) -> int:
    """Free space an image of this size asks for; 0 when the size is not known."""
    return int(size_bytes * ROOM)


def no_room(reference: str, data_root: str, size_bytes: int, free_bytes: int) -> str | None:
    """Why the image will not fit, or None."""
    needed = needed_bytes(size_bytes)
    if free_bytes >= needed:
        return None
    return (
        f"image {reference} needs {gigabytes(needed)} on {data_root}, {gigabytes(free_bytes)} are free: "
        "free space there (docker image prune --all removes images no container uses) or move Docker's "
        "data-root"
    )


def pull_failure(reference: str, data_root: str, output: str, free_bytes: int) -> str:
    """One message for a failed download."""
    if "no space left on device" in output.lower():
        return (
            f"the disk became full while loading image {reference}: {gigabytes(free_bytes)} are free on "
            f"{data_root} "
            "now; nothing half-loaded is used. Free space there (docker image prune --all removes images no "
            "container uses) and run again"
        )
    lines = said_lines(output)
    last = lines[-1] if lines else "docker said nothing"
    return (
        f"image {reference} cannot be pulled: {last[:400]}; check the reference and that this host reaches the registry"
    )
