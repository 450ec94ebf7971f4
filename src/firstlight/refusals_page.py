# SPDX-License-Identifier: Apache-2.0
"""Writes docs/refusals.md from the refusals the planner knows: python -m firstlight.refusals_page."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusal_index import page

PAGE = Path(__file__).parents[2] / "docs" / "refusals.md"

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
