# SPDX-License-Identifier: Apache-2.0
"""Bring an image to a host: from its registry, from an archive, or from a node that already has it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..host import Host
from .archive import listed
from .derive import has_more
from .image import (
    another_image,
    has_digest,
    local_name,
    needed_bytes,
    no_room,
    read_record,
    record_path,
    split_reference,
)
from .recipe import (
    BUILD_ROOM,
    RECIPE_LABEL,
    Recipe,
    Sources,
    read_recipe,
    recipe_digest,
    wheels_bytes,
    wrong_architecture,
)
from .store import (
    DiskFullError,
    ImageError,
    add_ray,
    build_recipe,
    data_root,
    identity,
    ids_in_archive,
    images_in_archive,
    inspect,
    label_of,
    load,
    pull,
    tag,
    versions,
)


def is_pinned(entry: Mapping[str, Any] | None, digest: str) -> bool:
    """Whether Docker itself identifies this image by the digest, as a registry digest or as its own id."""
    return entry is not None and (has_digest(entry.get("RepoDigests") or [], digest) or identity(entry) == digest)


class Bringer:
    """Brings one image to one host."""

    def __init__(self, host: Host, parameters: Mapping[str, Any], check_mode: bool) -> None:
        self.host = host
        self.check_mode = check_mode
        self.reference: str = parameters["reference"]
        self.digest = split_reference(self.reference)[1]
        self.ray: str = parameters["ray"] or ""
        self.name = local_name(self.reference, self.ray)
        self.base_name = local_name(self.reference)
        self.recipe = self._read_recipe(parameters.get("recipe") or {})
        self.archive: str = parameters["archive"] or ""
        self.expected: str = parameters["identity"] or ""
        record = read_record(host.read_text(record_path(self.name, parameters["records"]))) or {}
        self.recorded = str(record.get("id") or "")
        self.parameters = parameters

    def _read_recipe(self, given: Mapping[str, Any]) -> Recipe | None:
        """Validate the recipe that the reference belongs to."""
        if not given:
            return None
        recipe = read_recipe(given)
        found = recipe_digest(recipe)
        if found != self.digest:
            raise ImageError(
                f"recipe {recipe.name} has the digest {found}, expected {self.digest} as in {self.reference}: let the "
                "plan set both (firstlight_image_build), or correct inference_image_reference"
            )
        return recipe

    def bring(self) -> str:
        """Ensure that the host has the image under its name; return how it was obtained."""
        there = inspect(self.host, self.name, self.check_mode)
        known = self.expected or self.recorded
        if known and identity(there) == known:
            return "present"
        if self.expected:
            return self._from_neighbour()
        if there is not None and known and inspect(self.host, known, self.check_mode) is not None:
            # The name was given to another image; the verified one is still here.
            if not self.check_mode:
                tag(self.host, self.recorded, self.name)
            return "named"
        how = self._base()
        if not self.ray:
            return how
        if self.check_mode:
            return "built"
        return self._with_ray(how)

    def _from_neighbour(self) -> str:
        """Obtain the finished image of another node; it may already be here under another name."""
        if inspect(self.host, self.expected, self.check_mode) is not None:
            if not self.check_mode:
                tag(self.host, self.expected, self.name)
            return "named"
        if not self.archive:
            there = identity(inspect(self.host, self.name, self.check_mode))
            if self.check_mode:
                return "loaded"
            raise ImageError(another_image(self.name, there or "none", self.expected, self.parameters["origin"]))
        self._room(archived=2)
        if self.check_mode:
            return "loaded"
        self._compare()
        try:
            load(self.host, self.name, self.archive)
        except DiskFullError:
            # The archive can be fetched over the fabric again, and it is the largest file that can be removed to free
            # space.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.archive)
            raise
        found = inspect(self.host, self.expected)
        if found is None:
            there = identity(inspect(self.host, self.name)) or "none"
            raise ImageError(another_image(self.name, there, self.expected, self.parameters["origin"]))
        tag(self.host, self.expected, self.name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.archive)  # immediately, so that a run that ends here leaves nothing large behind
        return "loaded"

    def _compare(self) -> None:
        """Refuse an archive without the expected image, or with more than that, before it is loaded."""
        found, others, contents = images_in_archive(self.archive, self.expected)
        if not found or others:
            raise ImageError(
                f"archive {self.archive} holds {listed(contents)}, expected the image {self.expected} of "
                f"{self.parameters['origin']} alone: nothing was loaded. Find out who wrote it, remove it and run again"
            )

    def _base(self) -> str:
        """Obtain the image as published; it may already be here, under the registry's name."""
        # Any image can be given this name: without a record only the digest identifies it.
        if is_pinned(inspect(self.host, self.base_name, self.check_mode), self.digest):
            return "present"
        if self.recipe is not None:
            return self._from_recipe(self.recipe)
        if is_pinned(inspect(self.host, self.reference, self.check_mode), self.digest):
            if not self.check_mode:
                tag(self.host, self.reference, self.base_name)
            return "present"
        if self.archive:
            return self._from_archive()
        self._room()
        if not self.check_mode:
            pull(self.host, self.reference, self.digest, self.parameters["pull_timeout"])
            tag(self.host, self.reference, self.base_name)
        return "pulled"

    def _from_archive(self) -> str:
        """Load the published image from an archive."""
        if self.check_mode and not os.path.exists(self.archive):
            return "loaded"  # the controller may not have copied it yet
        candidates = ids_in_archive(self.reference, self.archive)
        self._room(archived=2)
        if self.check_mode:
            return "loaded"
        tag(self.host, self._loaded(self.reference, candidates), self.base_name)
        return "loaded"

    def _loaded(self, reference: str, candidates: Sequence[str]) -> str:
        """Load the archive and return the id of the image that was in it."""
        load(self.host, reference, self.archive)
        found = next((one for one in candidates if inspect(self.host, one) is not None), None)
        if found is None:
            raise ImageError(
                f"archive {self.archive} was loaded but Docker lists none of {', '.join(candidates)}: its "
                "manifest.json names a different image than its index.json; save it again"
            )
        return found

    def _from_recipe(self, recipe: Recipe) -> str:
        """Obtain the image of a recipe: build it here, or load an archive of one that was built elsewhere."""
        if self.check_mode:
            return "built"
        self._room(of_build=wheels_bytes(recipe) * BUILD_ROOM)
        if self.archive:
            found = self._loaded(recipe.base, ids_in_archive(recipe.base, self.archive, self.digest))
            if label_of(inspect(self.host, found), RECIPE_LABEL) == self.digest:
                tag(self.host, found, self.base_name)
                return "loaded"
            tag(self.host, found, recipe.base_name)
        elif not is_pinned(inspect(self.host, recipe.base_name), split_reference(recipe.base)[1]):
            pull(self.host, recipe.base, split_reference(recipe.base)[1], self.parameters["pull_timeout"])
            tag(self.host, recipe.base, recipe.base_name)
        base = inspect(self.host, recipe.base_name) or {}
        refusal = wrong_architecture(recipe, str(base.get("Architecture") or ""))
        if refusal:
            raise ImageError(refusal)
        given = ("wheels", "packages", "index")
        sources = Sources(**{name: str(self.parameters.get(f"build_{name}") or "") for name in given})
        build_recipe(self.host, recipe, base, self.base_name, sources, self.parameters["pull_timeout"])
        return "built"

    def _with_ray(self, how: str) -> str:
        """Provide the name that promises Ray: tag the image if it has Ray, else add it."""
        base = inspect(self.host, self.base_name)
        if base is None:
            raise ImageError(f"image {self.base_name} disappeared: keep others from removing images, and run again")
        found = versions(self.host, self.base_name, {"ray": self.ray}).get("ray")
        # A recipe includes only Ray itself; with the extras that only some clusters need, it is a different image.
        if found is not None and not (self.recipe is not None and has_more(self.ray)):
            tag(self.host, self.base_name, self.name)
            return how
        sources = {name: self.parameters[f"ray_{name}"] or "" for name in ("lock", "wheels", "index")}
        add_ray(self.host, base, (self.base_name, self.name), self.ray, sources)
        return "built"

    def _room(self, archived: int = 0, of_build: int = 0) -> None:
        """Refuse if there is too little space; the need is known from the archive, or for a build from its wheels."""
        size = self.parameters["size_bytes"]
        needed = of_build or needed_bytes(size)
        if archived:
            with contextlib.suppress(OSError):
                needed = archived * max(size, os.stat(self.archive).st_size)
        root = data_root(self.host)
        refusal = no_room(self.reference, root, needed, self.host.disk_free(root))
        if refusal:
            raise ImageError(refusal)
