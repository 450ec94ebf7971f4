# SPDX-License-Identifier: Apache-2.0
"""What tasks need is read by the main process, so that no task reads it again, and Python keeps what it compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
plugins = "ansible_collections.firstlight.cluster.plugins."
state = sys.modules[plugins + "plugin_utils.plan.serving.supervisor"]
made = sys.modules[plugins + "plugin_utils.programs"].program.cache_info().currsize
print(json.dumps([before, read(), type(state.__loader__).__name__, state.__cached__ or "", made]))
"""


def preloaded() -> Any:
    """What a process has read before and after, how a module of a role was found, and which programs are made."""
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(CHECKOUT / "collections")],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return json.loads(said.stdout)


@pytest.mark.slow  # a process that loads Ansible and the collection
def test_everything_is_read_once_and_for_all() -> None:
    before, after, loader, kept, made = preloaded()
    assert before == []
    assert after == sorted(path.stem for path in (CHECKOUT / "plugins/filter").glob("*.py") if path.stem != "__init__")
    assert (loader, made) == ("SourceFileLoader", 2)
    assert "__pycache__" in kept


def test_the_configuration_asks_for_it() -> None:
    assert "callbacks_enabled = firstlight.cluster.preload\n" in (CHECKOUT / "ansible.cfg").read_text()


PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - firstlight.cluster.observe:
    - ansible.builtin.ping:
"""


def played(tmp_path: Path, **environment: str) -> str:
    """What a run of two modules says, with a store of its own."""
    (tmp_path / "play.yml").write_text(PLAY)
    said = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", str(tmp_path / "play.yml")],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=CHECKOUT,
        env={
            **os.environ,
            "ANSIBLE_DEBUG": "1",
            "ANSIBLE_STDOUT_CALLBACK": "default",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            **environment,
        },
    )
    return said.stdout


@pytest.mark.extended  # three runs of Ansible
@pytest.mark.slow  # runs of Ansible
def test_what_is_sent_to_hosts_is_packed_once_until_a_source_of_it_changes(tmp_path: Path) -> None:
    packs, utils = "ANSIBALLZ: Creating module", tmp_path / "utils"
    utils.mkdir()
    first, second = (played(tmp_path, ANSIBLE_MODULE_UTILS=str(utils)) for _ in range(2))
    assert first.count(packs) == 2
    assert second.count(packs) == 0
    assert "ok=2 " in second
    assert len(list((tmp_path / "cache/firstlight/payloads").glob("*/*-none"))) == 2
    # What the operator has in place of Ansible's own counts, too.
    (utils / "own.py").write_text("ANSWER = 1\n")
    assert played(tmp_path, ANSIBLE_MODULE_UTILS=str(utils)).count(packs) == 2


@pytest.mark.extended  # runs of Ansible
@pytest.mark.slow  # runs of Ansible
def test_a_run_that_can_keep_nothing_does_all_by_itself(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no directory")
    assert "ok=2 " in played(tmp_path)
