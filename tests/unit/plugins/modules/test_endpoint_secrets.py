# SPDX-License-Identifier: Apache-2.0
"""The half of endpoint_secrets that is on the host: its directories, what it asks for, and how all of it goes."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.keys import KeysError
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.modules.endpoint_secrets import ARGUMENTS, keep, remove

ROOT = Path(__file__).parents[4]


def test_whoever_reads_what_is_beside_the_endpoint_can_enter_whatever_the_umask(tmp_path: Path) -> None:
    place = tmp_path / "firstlight" / "endpoint"
    parameters: dict[str, Any] = {name: option.get("default") for name, option in ARGUMENTS.items()}
    parameters |= {"directory": str(place), "names": ["head"], "engine_key_path": str(tmp_path / "server.env")}
    former = os.umask(0o077)
    try:
        with pytest.raises(KeysError, match="run the role inference_server first"):
            keep(Host(), parameters, False, datetime.datetime.now(datetime.UTC))
    finally:
        os.umask(former)
    assert {one.stat().st_mode & 0o777 for one in (place, place.parent)} == {0o755}


def test_a_link_goes_and_not_what_it_leads_to(tmp_path: Path) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "var" / "cache" / "firstlight-endpoint"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("somebody's")
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    assert remove(str(tmp_path / "endpoint"), check_mode=False, root=str(tmp_path))["changed"]
    assert not link.is_symlink()
    assert (elsewhere / "file").read_text() == "somebody's"


@pytest.mark.slow  # the module in a process of its own, as on a host
def test_names_that_are_missing_are_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.firstlight.cluster.plugins.modules.endpoint_secrets"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {"directory": str(tmp_path), "_ansible_check_mode": True}}),
        env={**os.environ, "PYTHONPATH": str(ROOT / "collections")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    result = json.loads(done.stdout)
    assert result["failed"]
    assert result["msg"] == "state is present but all of the following are missing: names"
