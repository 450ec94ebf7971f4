# SPDX-License-Identifier: Apache-2.0
"""Write wheels for a site without an index: a Ray that is nothing but its name, and this interpreter's pip.

python make_wheels.py DIRECTORY RAY_VERSION
"""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from pathlib import Path


def stub(directory: Path, name: str, version: str) -> None:
    """Metadata is all that the image is asked for."""
    information = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", f'__version__ = "{version}"\n')
        wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")


def pip(directory: Path) -> None:
    """As it lies in this environment: Python runs it out of the archive."""
    import pip as installed  # noqa: PLC0415 - only to find it

    root = Path(installed.__file__).parent
    version = importlib.metadata.version("pip")
    with zipfile.ZipFile(directory / f"pip-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                wheel.write(path, path.relative_to(root.parent))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    stub(target, "ray", sys.argv[2])
    pip(target)
