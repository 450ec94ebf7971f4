# SPDX-License-Identifier: Apache-2.0
"""What container_runtime makes of its variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.container_runtime import desired

from tests.unit.ideal import ideal

KEY = (Path(__file__).parents[5] / "fixtures" / "apt" / "key.asc").read_text(encoding="ascii")
FINGERPRINT = "B09BCE3F11309F4A859400B42CB957E4886442A4"
DAEMON = {
    "live-restore": True,
    "log-driver": "local",
    "log-opts": {"max-size": "50m", "max-file": "3"},
}
TOOLKIT = (
    "libnvidia-container-tools",
    "libnvidia-container1",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
)


def variables(**changes: Any) -> dict[str, Any]:
    return {
        "container_runtime_packages": {"docker.io": "20.10.24+dfsg1-1+deb12u1", "nvidia-container-toolkit": None},
        "container_runtime_daemon": DAEMON,
        "container_runtime_service": "docker.service",
        **{f"container_runtime_{name}": value for name, value in changes.items()},
    }


def test_a_host_without_gpus_as_older_inventories_ask_for_it() -> None:
    state = desired(variables())
    assert state["packages"] == {"docker.io": "20.10.24+dfsg1-1+deb12u1", "nvidia-container-toolkit": None}
    assert state["holds"] == {"docker.io": True, "nvidia-container-toolkit": True}
    assert list(state["files"]) == [
        "/etc/apt/apt.conf.d/52firstlight-container",
        "/etc/apt/preferences.d/00-firstlight-container",
    ]
    assert state["json_files"] == {
        "/etc/docker/daemon.json": {
            "settings": DAEMON,
            "whole": ["log-opts"],
            "mode": "0644",
            "owner": "root",
            "group": "root",
        }
    }
    assert state["units"] == {"docker.service": {"enabled": True, "active": True}}
    assert "cdi" not in state
    assert differences(state, ideal(state)) == []


def test_gpus_bring_the_runtime_and_one_description_of_them() -> None:
    state = desired(variables(gpus=True))
    settings = state["json_files"]["/etc/docker/daemon.json"]["settings"]
    assert settings == {**DAEMON, "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
    assert state["cdi"] == {"/etc/cdi/nvidia.json": {"kind": "nvidia.com/gpu"}}
    dropin = state["files"]["/etc/systemd/system/nvidia-cdi-refresh.service.d/firstlight.conf"]["content"]
    assert "Environment=NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/etc/cdi/nvidia.json\n" in dropin
    assert differences(state, ideal(state)) == []


def test_the_operators_own_runtime_settings_win() -> None:
    own = {"runtimes": {"nvidia": {"path": "/opt/runtime"}, "crun": {"path": "crun"}}}
    settings = desired(variables(gpus=True, daemon=own))["json_files"]["/etc/docker/daemon.json"]["settings"]
    assert settings == own


def test_a_pinned_toolkit_is_pinned_as_a_whole() -> None:
    state = desired(variables(packages={"docker.io": None, "nvidia-container-toolkit": "1.18.2-1"}))
    assert state["packages"] == {"docker.io": None, **dict.fromkeys(TOOLKIT, "1.18.2-1")}
    assert set(state["holds"]) == {"docker.io", *TOOLKIT}
    pins = state["files"]["/etc/apt/preferences.d/00-firstlight-container"]["content"]
    assert pins.count("Pin: version 1.18.2-1\n") == 4
    assert "docker.io" not in pins


def test_a_source_offers_only_the_set() -> None:
    signed = {"suites": ["./"], "key": KEY, "fingerprint": FINGERPRINT}
    sources = [
        {"name": "ctk", "packages": ["nvidia-container-toolkit"], "uris": ["https://m.example/ctk"], **signed},
        {"name": "docker", "packages": ["docker-ce"], "uris": ["https://d.example/ubuntu"], **signed},
    ]
    packages = {"docker-ce": None, "tini": None, "nvidia-container-toolkit": "1.18.2-1"}
    files = desired(variables(sources=sources, packages=packages))["files"]
    assert f"/etc/apt/keyrings/firstlight-{FINGERPRINT}.asc" in files
    toolkit = files["/etc/apt/sources.list.d/firstlight-container-ctk.sources"]
    assert "URIs: https://m.example/ctk\n" in toolkit["content"]
    assert toolkit["packages"] == sorted(TOOLKIT), "the whole release"
    assert files["/etc/apt/sources.list.d/firstlight-container-docker.sources"]["packages"] == ["docker-ce"]
    pins = files["/etc/apt/preferences.d/00-firstlight-container"]["content"]
    assert 'Package: docker-ce\nPin: origin "d.example"\nPin-Priority: 500\n' in pins
    assert "tini" not in pins, "it comes from the host's own sources"
    assert pins.endswith(
        'Package: *\nPin: origin "d.example"\nPin-Priority: -1\n\n'
        'Package: *\nPin: origin "m.example"\nPin-Priority: -1\n'
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"packages": {"nvidia-container-toolkit": "1.18.2-1", "libnvidia-container1": "1.18.1-1"}},
            "several versions .nvidia-container-toolkit 1.18.2-1, libnvidia-container1 1.18.1-1., expected one",
        ),
        ({"sources": {"uris": ["http://x"]}}, "container_runtime_sources is not a list of sources"),
        ({"sources": [{"name": "Mine!", "packages": ["docker.io"]}]}, "has a source with the name 'Mine!'"),
        ({"sources": [{"name": "x", "packages": ["dockr"]}]}, "dockr among the packages of x, expected packages of"),
        (
            {"sources": [{"name": one, "packages": ["docker.io"]} for one in "xy"]},
            "takes docker.io from x and from y, expected one source",
        ),
        (
            {"sources": [{"name": "x", "packages": ["docker.io"], "uris": ["http://x"], "suits": "./"}]},
            r"container_runtime_sources\.x has unknown fields suits",
        ),
        ({"daemon": ["debug"]}, "container_runtime_daemon is a list, expected settings"),
    ],
)
def test_errors(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        desired(variables(**changes))


def test_versions_are_text_and_nothing_is_a_state_too() -> None:
    assert desired(variables(packages={"docker.io": 20.1}))["packages"] == {"docker.io": "20.1"}
    state = desired(variables(packages=None, daemon=None))
    assert (state["packages"], state["files"], state["holds"]) == ({}, {}, {})
    assert differences(state, ideal(state)) == []
