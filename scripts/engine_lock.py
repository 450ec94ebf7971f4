# SPDX-License-Identifier: Apache-2.0
"""Write the lock of an engine release from uv's pylock.toml: versions, hashes and sizes, but no URLs.

Run by `scripts/engine_lock.sh`; see docs/venv.md.
"""

from __future__ import annotations

import sys
import tomllib
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import normal_name, parse_lock

from firstlight.errors import FirstlightError

Size = Callable[[str], int]


def size_of(url: str) -> int:
    """Return the size of a file in an index."""
    if not url.startswith("https://"):
        raise FirstlightError(f"a wheel is at {url}, expected an https address: lock against an index with TLS")
    with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=60) as answer:  # noqa: S310 - https
        return int(answer.headers["Content-Length"])


def lock_text(
    document: Mapping[str, Any], python: str, architecture: str, size: Size = size_of, beside: str = ""
) -> str:
    """Render the lock, with hashes only of the wheels for the platform, to which uv limits `document`.

    `beside` is the text of another lock, whose packages are already installed and are left out.
    """
    there = parse_lock(beside).packages if beside else {}
    blocks: list[str] = []
    urls: list[list[str]] = []
    for package in sorted(document["packages"], key=lambda one: str(one["name"])):
        if normal_name(str(package["name"])) in there:
            continue
        wheels = package.get("wheels") or []
        if not wheels:
            raise FirstlightError(
                f"{package['name']} {package['version']} has no wheel for Python {python} on {architecture}, expected "
                "one: a lock installs wheels only; build it once, put it into your own index and lock against that"
            )
        hashes = sorted({str(wheel["hashes"]["sha256"]) for wheel in wheels})
        pin = f"{package['name']}=={package['version']}"
        blocks.append(" \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in hashes)]))
        urls.append([str(wheel["url"]) for wheel in wheels])
    with ThreadPoolExecutor(max_workers=8) as pool:
        sizes = [max(found) for found in pool.map(lambda several: [size(url) for url in several], urls)]
    head = [
        "# Every wheel of an engine's release, by hash. Made by scripts/engine_lock.sh; do not edit by hand.",
        f"# python: {python}",
        f"# architecture: {architecture}",
        f"# wheels-bytes: {sum(sizes)}",
    ]
    return "\n".join([*head, *blocks]) + "\n"


def main(argv: list[str]) -> int:
    """Print the lock: `python -m scripts.engine_lock PYLOCK PYTHON ARCHITECTURE [LOCK]`."""
    pylock, python, architecture, *others = argv
    beside = "".join(Path(one).read_text() for one in others)
    try:
        sys.stdout.write(lock_text(tomllib.loads(Path(pylock).read_text()), python, architecture, beside=beside))
    except FirstlightError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
