# SPDX-License-Identifier: Apache-2.0
"""What nvidia_driver makes of its variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.source import with_password
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.nvidia_driver import desired

from tests.unit.ideal import ideal

KEY = (Path(__file__).parents[5] / "fixtures" / "apt" / "key.asc").read_text(encoding="ascii")
FINGERPRINT = "B09B CE3F 1130 9F4A 8594  00B4 2CB9 57E4 8864 42A4"
KEYRING = "/etc/apt/keyrings/firstlight-B09BCE3F11309F4A859400B42CB957E4886442A4.asc"
VERSION = "580.126.20-1ubuntu1"
SOURCE = {"uris": ["https://mirror.example/cuda"], "suites": ["./"], "key": KEY, "fingerprint": FINGERPRINT}
HEAD = "Managed by Firstlight (role nvidia_driver): changes here are overwritten.\n"


def variables(**changes: Any) -> dict[str, Any]:
    return {
        "nvidia_driver_policy": "install",
        "nvidia_driver_packages": {"nvidia-driver-580-open": VERSION, "nvidia-dkms-580-open": VERSION},
        "nvidia_driver_fabric_manager": {"nvidia-fabricmanager": "580.126.20-1"},
        "nvidia_driver_version": "",
        "nvidia_driver_branch": "",
        "nvidia_driver_flavour": "open",
        "nvidia_driver_source": SOURCE,
        "nvidia_driver_headers": True,
        "nvidia_driver_mig_ok": False,
        **{f"nvidia_driver_{name}": value for name, value in changes.items()},
    }


def content(text: str) -> dict[str, str]:
    return {"content": text, "mode": "0644", "owner": "root", "group": "root"}


def test_what_may_go_with_the_former_driver_is_none_of_the_set() -> None:
    assert desired(variables(remove=["cuda-12-8", "cuda"]))["driver"]["remove"] == ["cuda", "cuda-12-8"]
    assert "remove" not in desired(variables())["driver"]
    with pytest.raises(ValueError, match="nvidia_driver_remove has nvidia-dkms-580-open, which nvidia_driver_packages"):
        desired(variables(remove=["cuda", "nvidia-dkms-580-open"]))


def test_a_unit_without_persistence_gets_a_drop_in_where_the_driver_is_ours() -> None:
    path = "/etc/systemd/system/nvidia-persistenced.service.d/firstlight.conf"
    host = {"persistenced": "/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose"}
    assert desired(variables(host=host))["files"][path]["content"] == (
        f"# {HEAD}[Service]\nExecStart=\nExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose\n"
    )
    assert path not in desired(variables(host={"persistenced": "/usr/bin/nvidia-persistenced"}))["files"]
    assert path not in desired(variables(host=host, policy="verify-and-hold"))["files"]


def test_install_on_a_machine_with_an_nvswitch() -> None:
    state = desired(variables(host={"nvswitch": True, "kernel": "6.8.0-60-generic", "related": ["left-out"]}))
    names = ("nvidia-dkms-580-open", "nvidia-driver-580-open", "nvidia-fabricmanager")
    assert state == {
        "packages": {
            "nvidia-dkms-580-open": VERSION,
            "nvidia-driver-580-open": VERSION,
            "nvidia-fabricmanager": "580.126.20-1",
            "linux-headers-6.8.0-60-generic": None,
        },
        "holds": dict.fromkeys(names, True),
        "files": {
            "/etc/apt/apt.conf.d/52firstlight-nvidia": content(
                f"// {HEAD}Unattended-Upgrade::Package-Blacklist {{\n"
                + "".join(f'    "^{name}$";\n' for name in names)
                + "};\n"
            ),
            KEYRING: content(KEY),
            "/etc/apt/preferences.d/00-firstlight-nvidia": content(
                f"# {HEAD}\nPackage: nvidia-dkms-580-open\nPin: version {VERSION}\nPin-Priority: 1001\n"
                f"\nPackage: nvidia-driver-580-open\nPin: version {VERSION}\nPin-Priority: 1001\n"
                "\nPackage: nvidia-fabricmanager\nPin: version 580.126.20-1\nPin-Priority: 1001\n"
                '\nPackage: *\nPin: origin "mirror.example"\nPin-Priority: -1\n'
            ),
            "/etc/apt/sources.list.d/firstlight-nvidia.sources": content(
                f"# {HEAD}Types: deb\nURIs: https://mirror.example/cuda\nSuites: ./\nSigned-By: {KEYRING}\n"
            )
            | {"packages": list(names)},
            "/etc/modprobe.d/firstlight-nouveau.conf": content(
                f"# {HEAD}blacklist nouveau\noptions nouveau modeset=0\n"
            ),
        },
        "units": {
            "nvidia-persistenced.service": {"active": True, "if_present": True},
            "nvidia-fabricmanager.service": {"enabled": True, "active": True},
        },
        "driver": {
            "package": "nvidia-dkms-580-open",
            "version": "580.126.20",
            "branch": None,
            "flavour": "open",
            "mig": False,
        },
    }
    assert differences(state, ideal(state)) == []


def test_without_an_nvswitch_there_is_no_fabric_manager() -> None:
    state = desired(variables(host={"nvswitch": False, "kernel": "6.8"}))
    assert "nvidia-fabricmanager" not in state["packages"]
    assert "nvidia-fabricmanager" not in state["holds"]
    assert "nvidia-fabricmanager.service" not in state["units"]


def test_what_is_beside_the_set_is_held_where_the_driver_stays() -> None:
    host = {"kernel": "6.8", "installed": "580.126.20", "related": ["nvidia-settings"]}
    stays = desired(variables(host=host))
    assert stays["holds"]["nvidia-settings"]
    assert '"^nvidia-settings$"' in stays["files"]["/etc/apt/apt.conf.d/52firstlight-nvidia"]["content"]
    assert "nvidia-settings" not in stays["packages"]
    assert "nvidia-settings" not in desired(variables(host={**host, "installed": "580.95.05"}))["holds"]


@pytest.mark.parametrize(
    "uris", ["https://me:hunter2@mirror.example/cuda", ["file:/srv/a", "http://me@mirror.example"]]
)
def test_a_source_with_a_password_is_refused_without_repeating_it(uris: Any) -> None:
    with pytest.raises(
        ValueError, match=r"nvidia_driver_source has a user or password in .*\*@mirror.*auth\.conf\.d"
    ) as told:
        desired(variables(source={**SOURCE, "uris": uris}))
    assert "hunter2" not in str(told.value)
    assert "me@" not in str(told.value)


def test_an_at_sign_in_a_path_is_no_password() -> None:
    for uri in ("https://mirror.example/@site/cuda", "file:/srv/a@b"):
        assert with_password([uri]) == []


def test_headers_only_where_a_module_is_built_and_only_if_wanted() -> None:
    host = {"kernel": "6.8"}
    assert "linux-headers-6.8" not in desired(variables(host=host, headers=False))["packages"]
    prebuilt = {"nvidia-driver-580-open": VERSION}
    assert desired(variables(host=host, packages=prebuilt))["packages"] == prebuilt


def test_a_factory_driver_is_verified_by_its_branch_and_held_with_all_its_packages() -> None:
    state = desired(
        variables(
            policy="verify-and-hold",
            packages={"nvidia-driver-580-open": None},
            fabric_manager={},
            branch="580",
            source={},
            mig_ok=True,
            host={"nvswitch": False, "kernel": "6.17", "related": ["nvidia-utils-580"]},
        )
    )
    assert state["packages"] == {"nvidia-driver-580-open": None}
    assert state["holds"] == {"nvidia-driver-580-open": True, "nvidia-utils-580": True}
    assert list(state["files"]) == ["/etc/apt/apt.conf.d/52firstlight-nvidia"]
    assert state["driver"] == {
        "package": "nvidia-driver-580-open",
        "version": None,
        "branch": "580",
        "flavour": "open",
    }


def test_a_directory_on_the_host_may_be_unsigned() -> None:
    files = desired(variables(source={"uris": "file:/srv/nvidia", "suites": "./", "trusted": True}))["files"]
    assert KEYRING not in files
    assert 'Pin: origin ""' in files["/etc/apt/preferences.d/00-firstlight-nvidia"]["content"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"policy": "update"}, "expected verify-and-hold or install"),
        ({"packages": {}}, "nvidia_driver_packages is empty"),
        ({"packages": {"nvidia-driver-580": None}}, "gives no version for nvidia-driver-580"),
        ({"packages": {"libnvidia-gl-580": VERSION}, "fabric_manager": {}}, "is a driver"),
        ({"version": "580.95.05"}, "nvidia_driver_version is 580.95.05, but nvidia-dkms-580-open is pinned to"),
        ({"branch": "590"}, "is not of nvidia_driver_branch 590"),
        ({"flavour": "closed"}, "expected open, proprietary or nothing"),
        ({"fabric_manager": {"nvidia-fabricmanager": "580.95.05-1"}}, "runs only with its own driver version"),
        ({"source": {**SOURCE, "fingerprint": "AB" * 20}}, "this is not the key you pinned"),
        ({"source": {**SOURCE, "fingerprint": "886442A4"}}, "not 40 hexadecimal digits"),
        ({"source": {**SOURCE, "key": ""}}, "needs key"),
        ({"source": {**SOURCE, "key": "nonsense"}}, "not an ASCII-armored public key"),
        ({"source": {**SOURCE, "suites": []}}, "has no suites"),
        ({"source": {**SOURCE, "url": "x"}}, "unknown fields url"),
        ({"source": {**SOURCE, "trusted": True}}, "only allowed for file:"),
    ],
)
def test_what_cannot_work_is_refused_on_paper(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        desired(variables(**changes))


def test_verify_and_hold_needs_a_version_or_a_branch() -> None:
    with pytest.raises(ValueError, match="neither a version nor a branch"):
        desired(variables(policy="verify-and-hold", packages={"nvidia-driver-580": None}, fabric_manager={}))
