# SPDX-License-Identifier: Apache-2.0
"""Write wheels for a site without an index, a Ray that is only its name and this interpreter's pip, and their lock.

python make_wheels.py DIRECTORY RAY_VERSION PYTHON
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import sys
import zipfile
from pathlib import Path


def stub(directory: Path, name: str, version: str) -> None:
    """Metadata is all that the image is asked for."""
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", f'__version__ = "{version}"\n')
        metadata(wheel, name, version)


def metadata(wheel: zipfile.ZipFile, name: str, version: str) -> None:
    """What makes a wheel of an archive."""
    information = f"{name}-{version}.dist-info"
    wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{information}/RECORD", "")


def lock(wheels: Path, python: str, *pins: str) -> str:
    """These wheels of a directory, each by its hash."""
    lines = [f"# python: {python}", f"# architecture: {platform.machine()}"]
    for name, version in (pin.split("==") for pin in sorted(pins)):
        (wheel,) = wheels.glob(f"{name}-{version}-*.whl")
        lines.append(f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    return "\n".join(lines) + "\n"


def pip(directory: Path) -> str:
    """As it lies in this environment, and its pin: Python runs it out of the archive."""
    import pip as installed  # noqa: PLC0415 - only to find it

    root = Path(installed.__file__).parent
    version = importlib.metadata.version("pip")
    with zipfile.ZipFile(directory / f"pip-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                wheel.write(path, path.relative_to(root.parent))
        metadata(wheel, "pip", version)
    return f"pip=={version}"


if __name__ == "__main__":
    target, ray, release = Path(sys.argv[1]), *sys.argv[2:]
    target.mkdir(parents=True, exist_ok=True)
    stub(target, "ray", ray)
    # With pip in it: the image has no installer of its own.
    (target / "ray.lock").write_text(lock(target, release, f"ray=={ray}", pip(target)), encoding="ascii")
