# SPDX-License-Identifier: Apache-2.0
"""Who runs Ansible, where variables say nothing or something else."""

from __future__ import annotations

import os
import pwd
import socket

import pytest
from ansible_collections.firstlight.cluster.plugins.lookup.operator import LookupModule
from ansible_collections.firstlight.cluster.plugins.plugin_utils.operator import login_name

NOBODY_KNOWS = 4_000_000_001


@pytest.mark.parametrize(
    ("uid", "environment", "expected"),
    [
        (0, {}, "root"),
        (0, {"SUDO_USER": "alice", "USER": "root"}, "alice"),
        (os.getuid() or 1, {"USER": "somebody-else"}, pwd.getpwuid(os.getuid() or 1).pw_name),
        (NOBODY_KNOWS, {"USER": "alice"}, "alice"),
        (NOBODY_KNOWS, {"LOGNAME": " ", "USER": ""}, f"user {NOBODY_KNOWS}"),
    ],
)
def test_the_system_is_asked_before_variables(uid: int, environment: dict[str, str], expected: str) -> None:
    assert login_name(uid, environment) == expected


def test_the_machine_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SUDO_USER", raising=False)
    (told,) = LookupModule().run([])
    assert told == f"{pwd.getpwuid(os.getuid()).pw_name} at {socket.gethostname()}"
