# SPDX-License-Identifier: Apache-2.0
"""A server that forks runs of Ansible is the same, whichever test starts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.ansible_runs import AnsibleServer

pytestmark = pytest.mark.slow  # a run of Ansible


def test_a_run_has_nothing_of_the_test_that_started_its_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTLIGHT_OF_ANOTHER_TEST", "left behind")
    tell = {"ansible.builtin.debug": {"msg": "it says {{ lookup('env', 'FIRSTLIGHT_OF_ANOTHER_TEST') }}."}}
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [tell]}]))
    server = AnsibleServer({})
    try:
        assert "it says ." in server.run("ansible-playbook", "-i", "localhost,", "-v", str(play)).stdout
        own = {"FIRSTLIGHT_OF_ANOTHER_TEST": "asked for"}
        asked = server.run("ansible-playbook", "-i", "localhost,", "-v", str(play), environment=own)
        assert "it says asked for." in asked.stdout
    finally:
        server.close()
