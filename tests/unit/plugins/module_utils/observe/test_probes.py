# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.gpu_health import read_health
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.probes import (
    ASK_SERIAL,
    SERIAL,
    observe,
    read_serial,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import (
    differences,
    differences_by_role,
)

from tests.unit.fake_host import Answer, FakeHost, not_installed

OS_RELEASE = 'ID=ubuntu\nVERSION_ID="24.04"\n'


def host_with(commands: Mapping[str, Answer], files: Mapping[str, str] | None = None) -> FakeHost:
    host = FakeHost({"": not_installed, **commands}, {"/": None, "/etc/os-release": OS_RELEASE, **(files or {})})
    host.free, host.used = 100, 11
    return host


def ok(stdout: str, rc: int = 0, stderr: str = "") -> Result:
    return Result(("x",), rc, stdout, stderr)


def test_only_what_is_named_is_looked_at() -> None:
    host = host_with({})
    observation = observe(host, {"a": {}})
    assert host.ran == []
    assert set(observation) == {"facts", "errors"}
    assert observation["errors"] == {}
    assert observation["facts"]["distribution"] == "ubuntu"
    assert observation["facts"]["version"] == "24.04"
    assert observation["facts"]["disk_free"] == {"/": 100}


@pytest.mark.parametrize(
    ("journal", "state"),
    [
        (None, None),
        ('{"entries": [{"state": "planned"}, {"state": "staged"}]}', "staged"),
        ('{"entries": []}', "unknown"),
        ('{"entr', "unknown"),
        ("[]", "unknown"),
    ],
)
def test_a_host_tells_of_an_unfinished_repin(journal: str | None, state: str | None) -> None:
    files = {} if journal is None else {"/var/lib/firstlight/repin/journal.json": journal}
    facts = observe(host_with({}, files), {"a": {}})["facts"]
    assert (facts["repin"], facts["drained"]) == (state, False)
    assert observe(host_with({}, {"/var/lib/firstlight/drained": "{}"}), {"a": {}})["facts"]["drained"]


def test_each_tool_runs_once_for_all_roles() -> None:
    host = host_with(
        {
            "dpkg-query": ok("docker.io\tinstalled\t1\n", rc=1),
            "systemctl show": ok("Id=a.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n"),
            "systemctl get-default": ok("multi-user.target\n"),
            "docker image": ok("[]", 1, "Error: No such image: r@sha256:1\n"),
            "docker container": ok("[]", 1, "Error response from daemon: No such container: c\n"),
            "ip": ok("[]"),
            "nvidia-smi": ok("0, NVIDIA GB10, [N/A], 580.142, GPU-1\n"),
        }
    )
    state = {
        "packages": {"docker.io": None},
        "units": {"a.service": {"active": True}},
        "default_target": "multi-user.target",
        "gpus": {"count": 1, "name": "NVIDIA GB10"},
    }
    other = {
        "packages": {"never": None},
        "images": {"r@sha256:1": {}},
        "containers": {"c": {}},
        "links": {"e": {}},
    }
    observation = observe(host, {"one": state, "two": other, "three": state})
    assert observation["errors"] == {}
    assert len(host.ran) == 7
    assert observation["packages"] == {"docker.io": "1", "never": None}
    assert observation["images"] == {"r@sha256:1": {"exists": False, "id": None, "record": None}}
    assert observation["containers"]["c"]["exists"] is False
    assert observation["links"]["e"]["exists"] is False
    assert observation["gpus"]["memory_mib"] == [None]
    found = differences_by_role({"one": state, "two": other}, observation)
    assert found["one"] == []
    assert len(found["two"]) == 4
    json.dumps(observation)


def test_a_failed_probe_says_why_and_holds_up_nothing() -> None:
    host = host_with(
        {
            "dpkg-query": ok("", 2, "dpkg-query: error: database is locked\n"),
            "systemctl": ok("", 1, "System has not been booted with systemd\n"),
            "docker": ok("[]", 1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n"),
            "ip": ok("not json"),
            "nvidia-smi": OSError(5, "Input/output error"),
        },
        files={"/proc/sys/vm/swappiness": "60\n"},
    )
    state: dict[str, Any] = {
        "packages": {"a": None},
        "units": {"a.service": {"active": True}},
        "default_target": "multi-user.target",
        "images": {"r": {}},
        "containers": {"c": {}},
        "links": {"e": {}},
        "gpus": {"count": 1},
        "sysctl": {"vm.swappiness": "60"},
    }
    observation = observe(host, {"a": state})
    assert set(observation["errors"]) == set(state) - {"sysctl"}
    assert "locked" in observation["errors"]["packages"]
    assert "Docker daemon" in observation["errors"]["images"]
    assert observation["gpus"]["error"] == "Input/output error"
    assert observation["sysctl"] == {"vm.swappiness": "60"}
    assert {item["kind"] for item in differences(state, observation)} == {
        "package",
        "unit",
        "default_target",
        "image",
        "container",
        "link",
        "gpus",
    }


def test_without_docker_nothing_is_present_and_nothing_is_wrong() -> None:
    host = host_with({})
    observation = observe(host, {"a": {"images": {"r": {}}, "containers": {"c": {}}}})
    assert observation["images"] == {"r": {"exists": False, "id": None, "record": None}}
    assert observation["errors"] == {}
    assert host.ran == []


@pytest.mark.slow  # it waits half a second
def test_a_stuck_probe_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release, returned = threading.Event(), threading.Event()

    def read_slowly(path: str) -> str | None:
        if path.startswith("/proc/sys/vm"):
            release.wait(60)
            returned.set()
        return None

    host = host_with({})
    monkeypatch.setattr(host, "read_text", read_slowly)
    observation = observe(host, {"a": {"sysctl": {"vm.x": "1"}}}, timeout=-1.5)
    assert not returned.is_set()
    release.set()
    assert observation["errors"] == {"sysctl": "no answer within 0.5 s"}
    assert observation["sysctl"] == {}


def test_a_lost_gpu_is_an_error_although_others_answer() -> None:
    text = "Unable to determine the device handle for GPU1\n0, NVIDIA H200, 143771, 580.1, GPU-1\n"
    host = host_with({"nvidia-smi": ok(text, rc=15)})
    observation = observe(host, {"a": {"gpus": {"count": 2}}})
    assert observation["gpus"]["count"] == 1
    assert observation["gpus"]["error"].startswith("Unable to determine")


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("vm.swappiness", "/proc/sys/vm/swappiness"),
        ("net/ipv4/conf/eth0.1/mtu", "/proc/sys/net/ipv4/conf/eth0.1/mtu"),
        ("kernel.hostname", "/proc/sys/kernel/hostname"),
    ],
)
def test_kernel_settings_are_read_as_sysctl_names_them(key: str, path: str) -> None:
    observation = observe(host_with({}, files={path: "1\t2\n"}), {"a": {"sysctl": {key: "1 2", "no.such": "1"}}})
    assert observation["sysctl"] == {key: "1 2", "no.such": None}


class TestSnapshots:
    RECORD = json.dumps(
        {"repository": "a/b", "revision": "c", "files": {"f": {"size": 3, "mtime_ns": 1, "digest": "d"}}}
    )

    def test_verified(self) -> None:
        host = host_with({}, files={"/m/.firstlight-snapshot.json": self.RECORD, "/m/f": "abc"})
        observation = observe(host, {"a": {"snapshots": {"/m": {"repository": "a/b", "revision": "c"}}}})
        assert observation["snapshots"]["/m"] == {
            "verified": True,
            "repository": "a/b",
            "revision": "c",
            "reason": "",
            "contents": "",
        }
        assert observation["facts"]["disk_free"]["/m"] == 111

    def test_the_digest_of_all_files_is_that_of_what_sha256sum_prints(self) -> None:
        entry = {"size": 3, "mtime_ns": 1, "digest": "d", "sha256": "5" * 64}
        record = json.dumps({**json.loads(self.RECORD), "files": {"f": entry, "a/g": entry}})
        found = observe(host_with({}, files={"/m/.firstlight-snapshot.json": record}), {"a": {"snapshots": {"/m": {}}}})
        printed = f"{'5' * 64}  a/g\n{'5' * 64}  f\n"
        assert found["snapshots"]["/m"]["contents"] == f"sha256:{sha256(printed.encode()).hexdigest()}"

    def test_what_was_left_out_is_told(self) -> None:
        record = json.dumps({**json.loads(self.RECORD), "left_out": {"x.pth": 9}})
        host = host_with({}, files={"/m/.firstlight-snapshot.json": record, "/m/f": "abc"})
        found = observe(host, {"a": {"snapshots": {"/m": {}}}})["snapshots"]["/m"]
        assert (found["verified"], found["files"], found["left_out"]) == (True, ["f"], ["x.pth"])

    @pytest.mark.parametrize(
        ("files", "reason"),
        [
            ({}, "no record"),
            ({"/m/.firstlight-snapshot.json": "{"}, "not JSON"),
            ({"/m/.firstlight-snapshot.json": RECORD}, "f is missing"),
        ],
    )
    def test_not_verified(self, files: dict[str, str], reason: str) -> None:
        observation = observe(host_with({}, files=files), {"a": {"snapshots": {"/m": {}}}})
        assert observation["snapshots"]["/m"]["verified"] is False
        assert reason in observation["snapshots"]["/m"]["reason"]


def test_a_misspelt_state_is_refused_before_anything_runs() -> None:
    host = host_with({})
    with pytest.raises(ValueError, match="package"):
        observe(host, {"a": {"package": {}}})
    assert host.ran == []


def test_settings_cuda_and_descriptions_of_gpus() -> None:
    nvcc = "/usr/local/cuda-13.0/bin/nvcc"
    listed = "0, NVIDIA GB10, [N/A], 580.95.05, GPU-0\n"
    files = {
        "/etc/docker/daemon.json": '{"debug": true, "proxies": {"http-proxy": "http://u:secret@p"}}',
        "/broken.json": "{",
        nvcc: "",
        "/usr/local/cuda-13.0/version.json": '{"cuda": {"version": "13.0.2"}}',
    }
    answers = {nvcc: ok("Cuda compilation tools, release 13.0, V13.0.88\n"), "nvidia-smi": ok(listed)}
    desired = {
        "a": {
            "json_files": {
                "/etc/docker/daemon.json": {"settings": {"debug": False, "live-restore": True}},
                "/broken.json": {"settings": {"a": 1}},
            },
            "cuda": {"13.0": {}, "12.6": {}},
            "cdi": {"/etc/firstlight-no-such-directory/nvidia.json": {}},
        }
    }
    observation = observe(host_with(answers, files), desired)
    assert observation["errors"] == {}
    assert observation["json_files"]["/etc/docker/daemon.json"]["settings"] == {"debug": True}
    assert "it is not JSON" in observation["json_files"]["/broken.json"]["error"]
    assert "secret" not in json.dumps(observation)
    assert observation["cuda"]["13.0"] == {
        "exists": True,
        "release": "13.0",
        "compiler": "13.0.88",
        "version": "13.0.2",
        "error": None,
    }
    assert observation["cuda"]["12.6"]["exists"] is False
    assert observation["cdi"]["/etc/firstlight-no-such-directory/nvidia.json"]["exists"] is False
    silent = observe(host_with({nvcc: ok("", 1, "nvcc fatal")}, files), desired)
    assert silent["cuda"]["13.0"]["error"] == "/usr/local/cuda-13.0/bin/nvcc returned 1: nvcc fatal"


HEALTH: dict[str, Any] = {
    "gpu_verify": {
        "gpu_health": {
            "profile": "gb10",
            "hardware": {"gpus": 1, "gpu_name": "NVIDIA GB10", "unified": True},
            "driver": None,
            "accept": [],
        }
    }
}


def test_gpus_are_evaluated_on_the_host_and_only_the_checks_leave_it() -> None:
    failing = ok("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", rc=9)
    found = observe(
        host_with({"nvidia-smi": failing, "systemctl is-active": ok("inactive\n")}), HEALTH, evaluate=read_health
    )
    verdicts = {one["id"]: one["verdict"] for one in found["gpu_health"]["checks"]}
    assert verdicts["gpu.answer"] == "fail"
    assert "pass" not in verdicts.values()
    assert found["gpu_health"]["serving"] is False
    assert found["errors"] == {}
    assert len(json.dumps(found["gpu_health"])) < 20_000
    told = differences_by_role(HEALTH, found)["gpu_verify"]
    assert {one["kind"] for one in told} == {"gpu_check"}
    assert "gpu.answer" in {one["key"] for one in told}


def test_a_reading_of_the_gpus_that_breaks_is_an_error_and_a_difference() -> None:
    broken = {"gpu_verify": {"gpu_health": {**HEALTH["gpu_verify"]["gpu_health"], "hardware": {"gpus": 1}}}}
    found = observe(host_with({}), broken, evaluate=read_health)
    assert "the hardware has no gpu_name" in found["errors"]["gpu_health"]
    (told,) = differences_by_role(broken, found)["gpu_verify"]
    assert (told["key"], told["observed"]["verdict"]) == ("gpu.answer", "could_not_check")
    assert "the hardware has no gpu_name" in told["observed"]["observed"]


def test_a_tool_that_trips_is_one_answer_less() -> None:
    found = observe(host_with({"systemctl": OSError(5, "Input/output error")}), HEALTH, evaluate=read_health)
    assert found["errors"] == {}
    assert found["gpu_health"]["checks"]


@pytest.mark.parametrize(
    ("shown", "said", "serial"),
    [
        ("1423725010001\n", "other", "1423725010001"),
        (None, "LAB-SPARK2-1\n", "LAB-SPARK2-1"),
        (None, not_installed, ""),
        ("To be filled by O.E.M.\n", "other", ""),
        ("Not Specified\n", "", ""),
    ],
)
def test_the_serial_number_is_the_kernel_s_or_the_firmware_s(shown: str | None, said: Answer, serial: str) -> None:
    assert read_serial(FakeHost({" ".join(ASK_SERIAL): said}, {SERIAL: shown})) == serial
