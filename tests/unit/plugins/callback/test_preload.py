# SPDX-License-Identifier: Apache-2.0
"""Filters are read by the main process, so that no task reads them again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[4]
# A process of its own: in this one, other tests have read the filters already.
PROGRAM = """
import json, sys
from ansible.plugins.loader import callback_loader, filter_loader, init_plugin_loader
init_plugin_loader([sys.argv[1]])
def read():
    return sorted(name.rpartition(".")[2] for name in sys.modules
                  if name.startswith("ansible_collections.firstlight.cluster.plugins.filter."))
before = read()
callback_loader.get("firstlight.cluster.preload")
print(json.dumps([before, read()]))
"""


def test_every_filter_is_read_once_and_for_all() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(CHECKOUT / "collections")],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    before, after = json.loads(said.stdout)
    assert before == []
    assert after == sorted(path.stem for path in (CHECKOUT / "plugins/filter").glob("*.py") if path.stem != "__init__")


def test_the_configuration_asks_for_it() -> None:
    assert "callbacks_enabled = firstlight.cluster.preload\n" in (CHECKOUT / "ansible.cfg").read_text()
