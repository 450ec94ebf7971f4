# SPDX-License-Identifier: Apache-2.0
"""Write a recipe, its lock and its wheels for a site without an index: packages that are only names, and pip.

python make_recipe.py DIRECTORY BASE PYTHON NAME==VERSION...
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from make_wheels import lock, pip, stub

sys.path.insert(0, str(Path(__file__).parents[3] / "collections"))
from ansible_collections.firstlight.cluster.plugins.module_utils.image.recipe import read_recipe, recipe_reference

if __name__ == "__main__":
    target, (base, release, *pinned) = Path(sys.argv[1]), sys.argv[2:]
    (target / "wheels").mkdir(parents=True, exist_ok=True)
    for one in pinned:
        stub(target / "wheels", *one.split("=="))
    pip(target / "wheels")  # it installs the others
    recipe = {
        "name": "lab",
        "base": base,
        "architecture": platform.machine(),
        "python": release,
        "packages": [],
        "environment": {"LAB_RECIPE": "built"},
        "lock": lock(target / "wheels", release, *pinned),
    }
    told = {"recipe": recipe, "reference": recipe_reference(read_recipe(recipe))}
    (target / "recipe.json").write_text(json.dumps(told, indent=2), encoding="ascii")
