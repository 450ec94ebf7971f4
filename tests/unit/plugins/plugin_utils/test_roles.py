# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import RoleInterface, load_roles


def test_defaults_and_argument_specs_are_read(tmp_path: Path) -> None:
    (tmp_path / "web" / "defaults").mkdir(parents=True)
    (tmp_path / "web" / "meta").mkdir()
    (tmp_path / "web" / "defaults" / "main.yml").write_text(
        "web_port: 80\nweb_name: '{{ inventory_hostname }}'\nweb_list: [a, ['{{ b }}']]\nweb_map: {a: 1}\n"
    )
    (tmp_path / "web" / "meta" / "argument_specs.yml").write_text(
        "argument_specs:\n  main:\n    options:\n      web_port: {}\n      web_image: {required: true}\n"
        "  gate:\n    options:\n      web_gate: {}\n  bare:\n"
    )
    web = load_roles(tmp_path, ["web"])["web"]
    assert web.defaults == {"web_port": 80, "web_map": {"a": 1}}
    assert web.variables == {"web_port", "web_name", "web_list", "web_map", "web_image", "web_gate"}


def test_a_role_without_files_has_an_empty_interface(tmp_path: Path) -> None:
    assert load_roles(tmp_path, ["none"]) == {"none": RoleInterface()}
