# SPDX-License-Identifier: Apache-2.0
"""Read the node list written by `firstlight discover --output`."""

from __future__ import annotations

from pathlib import Path

import yaml

from firstlight.errors import UsageError
from firstlight.ssh.targets import Target, listed


def read_nodes(path: Path) -> list[Target]:
    """Return the nodes in the file. Raises UsageError."""
    try:
        return listed(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, yaml.YAMLError):
        raise UsageError(
            f"{path} is not YAML; expected what `firstlight discover --output` writes. Correct it."
        ) from None
