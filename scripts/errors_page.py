# SPDX-License-Identifier: Apache-2.0
"""Generate docs/errors.md from all errors for which a plan is refused: python -m scripts.errors_page."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "errors.md"


def all_errors() -> dict[str, str]:
    """Return identifier -> reason for the rule, sorted. Raises ValueError if two modules define the same identifier."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "plugins" / "plugin_utils").rglob("*.py")):
        if "\nERRORS" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        errors: dict[str, str] = import_module(f"ansible_collections.firstlight.cluster.{name}").ERRORS
        twice = sorted(found.keys() & errors.keys())
        if twice:
            raise ValueError(f"{name} defines {', '.join(twice)}, which another module already does")
        found |= errors
    return dict(sorted(found.items()))


def page() -> str:
    """Return the content of docs/errors.md."""
    lines = [
        "# Errors",
        "",
        "Whatever can be known wrong before a host is touched is refused by the plan, all of it at once. Each error",
        "has a stable identifier, what was found, the rule, and what to change. `firstlight plan --json` gives them as",
        "a list and exits 2.",
        "",
        "`python -m scripts.errors_page` writes this page out of the modules under `plugins/plugin_utils/`.",
    ]
    area = ""
    for identifier, why in all_errors().items():
        if identifier.split(".")[0] != area:
            area = identifier.split(".")[0]
            lines += ["", f"## {area}", "", "| identifier | why it is a rule |", "| --- | --- |"]
        lines.append(f"| `{identifier}` | {why} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
