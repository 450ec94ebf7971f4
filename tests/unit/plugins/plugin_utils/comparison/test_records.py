# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import (
    Record,
    driver_package,
    lines,
    records,
    silent,
    suspects,
    verdict_line,
    wrong,
)

from tests.unit.ideal import ideal

DESIRED: dict[str, Any] = {
    "preflight": {
        "links": {"eth1": {}},
        "gpus": {"count": 1, "name": "NVIDIA GB10"},
        "disk_free": {"/": 1 << 60},
        "distributions": [{"distribution": "ubuntu", "version": "24.04"}],
    },
    "nvidia_driver": {
        "packages": {"nvidia-utils-580": "580.95.05-1", "nvidia-dkms-580-open": "580.95.05-1"},
        "holds": {"nvidia-utils-580": True},
        "driver": {"package": "nvidia-dkms-580-open", "version": "580.95.05", "flavour": "open", "mig": False},
    },
    "container_runtime": {"packages": {"docker.io": "20.10"}, "units": {"docker.service": {"active": True}}},
    "host_tuning": {
        "sysctl": {"vm.swappiness": "1"},
        "files": {"/etc/a.conf": {"content": "text", "mode": "0644", "owner": "root", "group": "root"}},
        "default_target": "multi-user.target",
    },
    "inference_image": {"images": {"repo@sha256:1": {"reference": "repo@sha256:1"}}},
    "model_weights": {"snapshots": {"/models/m": {"repository": "o/m", "revision": "1"}}},
    "ray_cluster": {
        "files": {"/etc/firstlight/ray.token": {"secret": True, "mode": "0600", "same_as": "spark0"}},
        "containers": {"firstlight-ray": {"image": "repo@sha256:1", "running": True}},
        "units": {"firstlight-ray.service": {"active": True}},
    },
    "inference_server": {},
}
PEERS = {"spark0": {"files": {"/etc/firstlight/ray.token": {"exists": True, "sha256": "5ec4e7" * 10}}}}


def right() -> dict[str, Any]:
    """A host as all of this wants it."""
    observed: dict[str, Any] = {"facts": {}, "errors": {}}
    for state in DESIRED.values():
        for kind, found in ideal(state, PEERS).items():
            if kind == "facts":
                observed["facts"] |= found
            elif isinstance(found, dict):
                observed[kind] = {**observed.get(kind, {}), **found}
            else:
                observed[kind] = found
    observed["links"] = {"eth1": {"exists": True, "mtu": 9000, "addresses": [], "up": True}}
    return observed


def evaluate(observed: dict[str, Any], **more: Any) -> dict[str, Record]:
    listed = records("spark1", DESIRED, observed, PEERS, **more)
    assert len({one["id"] for one in listed}) == len(listed)
    return {one["id"]: one for one in listed}


def test_a_host_that_is_right_passes_every_check_by_a_name_that_stays() -> None:
    found = evaluate(right())
    assert {one["verdict"] for one in found.values()} == {"pass"}
    assert set(found) == {
        "link.eth1", "gpus", "distribution",
        "package.nvidia-utils-580", "package.nvidia-dkms-580-open", "hold.nvidia-utils-580",
        "driver.installed", "driver.loaded", "driver.library", "driver.answer", "driver.flavour", "driver.mig",
        "driver.nouveau", "driver.mixed",
        "package.docker.io", "unit.docker.service", "sysctl.vm.swappiness", "file./etc/a.conf", "default_target",
        "image.repo@sha256:1", "snapshot./models/m", "file./etc/firstlight/ray.token", "container.firstlight-ray",
        "unit.firstlight-ray.service",
    }  # fmt: skip
    assert set(found["gpus"]) == {"id", "host", "expected", "observed", "verdict", "remedy", "command", "by"}
    assert found["package.docker.io"]["observed"] == "20.10"


def test_nothing_secret_is_in_the_records() -> None:
    observed = right()
    observed["files"]["/etc/firstlight/ray.token"]["sha256"] = "bad5ec" * 10
    observed["driver"]["error"] = "cannot reach http://me:hunter2@proxy/"
    told = json.dumps(list(evaluate(observed).values()))
    assert "5ec4e7" not in told
    assert "bad5ec" not in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("kind", "key", "value", "name", "remedy"),
    [
        ("packages", "nvidia-utils-580", "580.126.09-1", "package.nvidia-utils-580", "repin.yml with -e stack=lab"),
        ("packages", "docker.io", None, "package.docker.io", "site.yml"),
        ("holds", "nvidia-utils-580", False, "hold.nvidia-utils-580", "site.yml"),
        ("sysctl", "vm.swappiness", "60", "sysctl.vm.swappiness", "site.yml"),
        ("images", "repo@sha256:1", {"exists": False}, "image.repo@sha256:1", "site.yml"),
        ("links", "eth1", {"exists": False}, "link.eth1", "hardware"),
        ("driver", "installed", "580.126.09", "driver.installed", "repin.yml"),
        ("driver", "loaded", "580.126.09", "driver.loaded", "reboot spark1"),
        ("driver", "nouveau", True, "driver.nouveau", "reboot spark1"),
        ("driver", "mig", {"current": True}, "driver.mig", "nvidia-smi -mig 0"),
        ("driver", "error", "it hangs", "driver.answer", "nvidia-smi"),
        ("driver", "flavour", "proprietary", "driver.flavour", "repin.yml"),
    ],
)
def test_what_left_its_pin_fails_with_a_remedy(kind: str, key: str, value: Any, name: str, remedy: str) -> None:
    observed = right()
    observed[kind][key] = value
    found = evaluate(observed, stack="lab")
    assert found[name]["verdict"] == "fail"
    assert remedy in found[name]["remedy"]
    assert found[name]["by"] is None


def remedies(**driver: Any) -> dict[str, str]:
    observed = right()
    observed["packages"] |= dict.fromkeys(DESIRED["nvidia_driver"]["packages"], "580.126.09-1")
    observed["packages"]["docker.io"] = "24"
    observed["driver"] |= {"installed": "580.126.09", **driver}
    return {name: one["remedy"] for name, one in evaluate(observed, stack="lab").items() if one["verdict"] == "fail"}


def test_a_driver_that_moved_by_hand_is_put_back_by_what_takes_such_a_host() -> None:
    """A re-pin moves a host only if the driver it has is one, so it is no remedy before a reboot."""
    mismatch = "Failed to initialize NVML: Driver/library version mismatch"
    found = remedies(loaded="580.95.05", library="580.126", error=mismatch)
    names = {"driver.installed", "driver.library", "driver.answer", "package.nvidia-utils-580", "package.docker.io"}
    assert names <= found.keys()
    for name in names:
        service = "`systemctl stop firstlight-supervisor firstlight-server firstlight-ray`"
        assert found[name].startswith(f"take spark1 out of service ({service})")
        assert "site.yml with -e nvidia_driver_policy=install" in found[name]
    assert set(remedies(loaded="580.126.09", library="580.126.09").values()) == {"run repin.yml with -e stack=lab"}


def test_a_driver_that_does_not_answer_comes_before_its_packages() -> None:
    for more in ({"silent": True, "loaded": "580.95.05"}, {"loaded": "580.126.09"}):
        found = remedies(library=None, error="no answer", **more)
        assert found["package.docker.io"].startswith("make `nvidia-smi` answer on spark1 first")
    assert "dmesg" in remedies(loaded="580.126.09", library="580.126.09", error="no answer")["driver.answer"]


def test_a_driver_of_the_factory_is_its_vendors_affair() -> None:
    desired = {
        "nvidia_driver": {"packages": {"nvidia-open": None}, "driver": {"package": "nvidia-open", "branch": "580"}}
    }
    seen = {**ideal(desired["nvidia_driver"])["driver"], "installed": "590.48.01", "loaded": "590.48.01"}
    listed = records("spark1", desired, {"packages": {"nvidia-open": "1"}, "driver": {**seen, "library": "590.48.01"}})
    (first, *_) = wrong(listed)
    assert first["remedy"] == "install a driver of branch 580 on spark1 with the means of its vendor, and reboot it"


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("packages", ["package.docker.io", "package.nvidia-utils-580"]),
        ("holds", ["hold.nvidia-utils-580"]),
        ("sysctl", ["sysctl.vm.swappiness"]),
        ("files", ["file./etc/a.conf"]),
        ("units", ["unit.docker.service"]),
        ("images", ["image.repo@sha256:1"]),
        ("containers", ["container.firstlight-ray"]),
        ("links", ["link.eth1"]),
        ("driver", ["driver.installed"]),
        ("gpus", ["gpus"]),
        ("default_target", ["default_target"]),
        ("snapshots", ["snapshot./models/m"]),
    ],
)
def test_what_could_not_be_looked_at_is_neither_right_nor_wrong(kind: str, names: list[str]) -> None:
    observed = right()
    del observed[kind]
    observed["errors"] = {kind: "it gave no answer within 30 s"}
    found = evaluate(observed)
    for name in names:
        assert found[name]["verdict"] == "could_not_check"
        assert "no answer within 30 s" in found[name]["observed"]
        assert "no answer within 30 s" in found[name]["remedy"]
    assert {one["verdict"] for one in found.values()} == {"pass", "could_not_check"}


def test_a_silent_driver_fails_and_what_it_did_not_say_could_not_be_checked() -> None:
    observed = right()
    observed["driver"] |= {"error": "nvidia-smi gave no answer within 30 s", "library": None}
    found = evaluate(observed)
    assert found["driver.answer"]["verdict"] == "fail"
    assert found["driver.library"]["verdict"] == "could_not_check"
    assert "driver.mig" not in found


def test_a_secret_with_nothing_to_compare_it_with_could_not_be_checked() -> None:
    found = {one["id"]: one for one in records("spark1", DESIRED, right(), {})}
    assert found["file./etc/firstlight/ray.token"]["verdict"] == "could_not_check"
    assert "spark0" in found["file./etc/firstlight/ray.token"]["observed"]


def test_two_roles_that_ask_for_one_thing_give_one_record_and_the_worse_counts() -> None:
    desired: dict[str, Any] = {
        "a": {"packages": {"x": None}},
        "b": {"packages": {"x": "1"}},
        "c": {"packages": {"x": None}},
    }
    (found,) = records("h", desired, {"packages": {"x": "2"}})
    assert (found["verdict"], found["expected"], found["observed"]) == ("fail", "1", "2")


def test_a_host_that_does_not_answer_has_one_record() -> None:
    (found,) = silent("spark1", "ssh: connect to host spark1 port 22:\n No route to host")
    assert (found["id"], found["verdict"]) == ("host.answer", "could_not_check")
    assert found["observed"].endswith("22: No route to host")


def test_a_re_pin_under_way_and_a_drained_host_come_first() -> None:
    observed = right()
    observed["facts"] |= {"repin": "drained", "drained": True}
    observed["units"]["firstlight-ray.service"]["active"] = False
    listed = records("spark1", DESIRED, observed, PEERS, history={})
    assert [one["id"] for one in listed[:2]] == ["repin.journal", "host.drained"]
    assert "stopped at drained" in listed[0]["observed"]
    found = {one["id"]: one for one in listed}
    assert found["unit.firstlight-ray.service"]["by"] == "the host is out of service (see host.drained)"


def test_only_what_failed_is_asked_about() -> None:
    observed = right()
    assert suspects(records("h", DESIRED, observed, PEERS), observed, driver_package(DESIRED)) == {}
    observed["packages"]["docker.io"] = "24"
    observed["holds"]["nvidia-utils-580"] = False
    observed["driver"]["loaded"] = "580.126.09"
    observed["files"]["/etc/a.conf"]["mode"] = "0600"
    observed["sysctl"]["vm.swappiness"] = "60"
    observed["units"]["firstlight-ray.service"]["active"] = False
    observed["containers"]["firstlight-ray"] = {"exists": False}
    assert suspects(records("h", DESIRED, observed, PEERS), observed, driver_package(DESIRED)) == {
        "packages": {
            "docker.io": "24",
            "nvidia-utils-580": "580.95.05-1",
            "nvidia-dkms-580-open": "580.95.05-1",
        },
        "paths": ["/etc/a.conf"],
        "units": ["firstlight-ray.service"],
        "sysctl": ["vm.swappiness"],
    }


def test_the_table_has_what_is_wrong_and_counts_the_rest() -> None:
    observed = right()
    observed["packages"]["nvidia-utils-580"] = "580.126.09-1"
    moved = {"action": "upgrade", "before": "1", "after": "2", "log": "apt", "command": "/usr/bin/unattended-upgrade"}
    listed = records("spark1", DESIRED, observed, PEERS, {"packages": {"nvidia-utils-580": moved}}, "lab")
    assert lines(listed) == [
        "FAIL     package.nvidia-utils-580: 580.126.09-1, expected 580.95.05-1",
        "         by   unattended-upgrades upgraded it from 1 to 2",
        "         do   run repin.yml with -e stack=lab",
        "23 of 24 checks passed",
    ]
    twice = [listed[0], *wrong(listed), *wrong(listed)]
    assert [line.split()[0] for line in lines(twice)] == ["FAIL", "FAIL", "by", "do", "1"]
    assert verdict_line("spark1", listed) == (
        "spark1 differs from its plan: package.nvidia-utils-580. Run repin.yml with -e stack=lab."
    )
    assert len(wrong(listed)) == 1


FURTHER: dict[str, Any] = {
    "engine_venv": {"venvs": {"/opt/venvs/vllm": {"lock": "1" * 64}}},
    "cuda_toolkit": {"cuda": {"13.0": {"compiler": "13.0.88"}}},
    "container_runtime": {
        "json_files": {"/etc/docker/daemon.json": {"settings": {"key": 1}, "mode": "0644"}},
        "cdi": {"/etc/cdi/nvidia.json": {"kind": "nvidia.com/gpu"}},
    },
}


@pytest.mark.parametrize("role", FURTHER)
def test_a_check_has_one_name_whether_it_is_right_wrong_or_could_not_be_checked(role: str) -> None:
    state = FURTHER[role]
    looked_at = ideal(state)
    nothing = {kind: {key: {"exists": False} for key in want} for kind, want in state.items()}
    unread = {"errors": dict.fromkeys(state, "it hangs")}
    named = [records("h", {role: state}, observed) for observed in (looked_at, nothing, unread)]
    assert [{one["verdict"] for one in found} for found in named] == [{"pass"}, {"fail"}, {"could_not_check"}]
    assert len({tuple(one["id"] for one in found) for found in named}) == 1
    assert all("it hangs" in one["observed"] for one in named[2])
