# SPDX-License-Identifier: Apache-2.0
"""Nodes as they are delivered."""

from __future__ import annotations

from pathlib import Path

from firstlight_lab.as_delivered import PASSWORD, files, firmware, password, serial


def test_the_password_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    secret = password(tmp_path)
    assert len(secret) >= 16
    assert password(tmp_path) == secret
    assert (tmp_path / PASSWORD).stat().st_mode & 0o777 == 0o600


def test_such_a_node_lets_a_password_in_and_no_key() -> None:
    made = files()
    assert "PasswordAuthentication yes\n" in made.values()
    assert not [name for name in made if "authorized_keys" in name]


def test_a_machine_that_replaces_another_has_a_number_of_its_own() -> None:
    made = firmware(serial("spark0", 2), "gb10")
    assert made["etc/firstlight-lab/serial"] == "LAB-SPARK0-2\n"
    assert serial("spark0") == "LAB-SPARK0"
    assert "DGX Spark" in made["usr/local/sbin/dmidecode"]
