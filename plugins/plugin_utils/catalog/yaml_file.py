# SPDX-License-Identifier: Apache-2.0
"""YAML files of the collection and the site, read fast where the C library is there, and always safely."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(path: Path) -> Any:
    """The document in a file. Raises OSError, UnicodeDecodeError or yaml.YAMLError when there is none."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader, C or Python
