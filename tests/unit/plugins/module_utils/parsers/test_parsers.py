# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.docker import (
    canonical_reference,
    parse_docker_containers,
    parse_docker_images,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dpkg import parse_dpkg_query
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.meminfo import total_bytes
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.network import parse_ip_addresses
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.nvidia_smi import (
    GpuReading,
    parse_gpu_list,
    parse_query_gpu,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.systemd import parse_systemctl_show
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.text import parse_os_release, strip_ansi
from hypothesis import given
from hypothesis import strategies as st

DIGEST = "sha256:" + "1" * 64


class TestText:
    @pytest.mark.parametrize(
        ("text", "plain"),
        [
            ("", ""),
            ("plain", "plain"),
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07after", "after"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("a\x1b[2Kb\x1b(", "ab\x1b("),
        ],
    )
    def test_escape_sequences_go(self, text: str, plain: str) -> None:
        assert strip_ansi(text) == plain

    def test_os_release(self) -> None:
        text = (
            'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\n# comment\n\nID=ubuntu\n'
            "ID_LIKE='debian'\nBROKEN=\"no end\n"
        )
        found = parse_os_release(text)
        assert (found["ID"], found["VERSION_ID"], found["ID_LIKE"]) == ("ubuntu", "24.04", "debian")
        assert found["BROKEN"] == "no end"

    @pytest.mark.parametrize("text", ["", "no assignments\nat all", "=x"])
    def test_os_release_without_content(self, text: str) -> None:
        assert parse_os_release(text) == {}


class TestDpkg:
    def test_installed_removed_and_unknown(self) -> None:
        text = "docker.io\tinstalled\t20.10.24+dfsg1-1\nold\tconfig-files\t1.0\nhalf\thalf-installed\t2\n"
        assert parse_dpkg_query(text, ["docker.io", "old", "half", "never"]) == {
            "docker.io": "20.10.24+dfsg1-1",
            "old": None,
            "half": None,
            "never": None,
        }

    def test_a_foreign_architecture_does_not_hide_the_installed_one(self) -> None:
        text = "libc6\tinstalled\t2.36\nlibc6\tnot-installed\t\n"
        assert parse_dpkg_query(text, ["libc6"]) == {"libc6": "2.36"}

    @pytest.mark.parametrize("text", ["", "\n", "garbage", "a\tb"])
    def test_nothing_useful_means_not_installed(self, text: str) -> None:
        assert parse_dpkg_query(text, ["a"]) == {"a": None}


class TestSystemd:
    TEXT = (
        "Id=docker.service\nNames=docker.service\nLoadState=loaded\nUnitFileState=enabled\n"
        "ActiveState=active\nSubState=running\n\n"
        "Id=gdm.service\nNames=gdm.service display-manager.service gdm3.service\nLoadState=loaded\n"
        "UnitFileState=static\nActiveState=inactive\nSubState=dead\n\n"
        "Id=sddm.service\nNames=sddm.service\nLoadState=not-found\nUnitFileState=\nActiveState=inactive\nSubState=dead\n\n"
        "Id=lightdm.service\nNames=lightdm.service\nLoadState=masked\nUnitFileState=masked\nActiveState=inactive\n"
        "SubState=dead\n"
    )

    def test_every_state(self) -> None:
        names = ["docker.service", "gdm3.service", "sddm.service", "lightdm.service"]
        units = parse_systemctl_show(self.TEXT, names)
        assert units["docker.service"] == {
            "load": "loaded",
            "enabled": True,
            "active": True,
            "sub": "running",
        }
        assert units["gdm3.service"] == {"load": "loaded", "enabled": False, "active": False, "sub": "dead"}
        assert units["sddm.service"]["load"] == "not-found"
        assert units["lightdm.service"]["load"] == "masked"

    @pytest.mark.parametrize("text", ["", "\n\n\n", "Failed to connect to bus", "LoadState=loaded"])
    def test_a_unit_that_was_not_told_of_is_left_out(self, text: str) -> None:
        assert parse_systemctl_show(text, ["docker.service"]) == {}


class TestNetwork:
    TEXT = json.dumps(
        [
            {},
            {
                "ifname": "enp1s0f1np1",
                "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
                "mtu": 9000,
                "operstate": "UP",
                "addr_info": [
                    {"family": "inet", "local": "192.168.100.10", "prefixlen": 24, "scope": "global"},
                    {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"},
                ],
            },
            {"ifname": "enP2p1s0f1np1", "flags": ["NO-CARRIER", "UP"], "mtu": 1500, "operstate": "DOWN"},
            {
                "ifname": "dummy0",
                "flags": ["UP", "LOWER_UP"],
                "mtu": 1500,
                "operstate": "UNKNOWN",
                "addr_info": [],
            },
        ]
    )

    def test_links(self) -> None:
        links = parse_ip_addresses(self.TEXT)
        assert links["enp1s0f1np1"] == {
            "exists": True,
            "mtu": 9000,
            "addresses": ["192.168.100.10/24"],
            "up": True,
        }
        assert links["enP2p1s0f1np1"]["up"] is False
        assert links["dummy0"]["up"] is True
        assert len(links) == 3

    @pytest.mark.parametrize("text", ["", "  \n", "[]", "[{}]"])
    def test_no_links(self, text: str) -> None:
        assert parse_ip_addresses(text) == {}

    @pytest.mark.parametrize("text", ["{", "{}", 'Option "-j" is unknown'])
    def test_not_json_is_an_error(self, text: str) -> None:
        with pytest.raises(ValueError, match="ip -j addr"):
            parse_ip_addresses(text)


class TestDocker:
    @pytest.mark.parametrize(
        ("reference", "canonical"),
        [
            (f"vllm/vllm-openai@{DIGEST}", f"vllm/vllm-openai@{DIGEST}"),
            (f"docker.io/vllm/vllm-openai:v1@{DIGEST}", f"vllm/vllm-openai@{DIGEST}"),
            (f"docker.io/library/debian@{DIGEST}", f"debian@{DIGEST}"),
            (f"registry.lab.example:5000/vllm:x@{DIGEST}", f"registry.lab.example:5000/vllm@{DIGEST}"),
            ("registry.lab.example:5000/vllm:x", "registry.lab.example:5000/vllm:x"),
            ("debian:12", "debian:12"),
        ],
    )
    def test_references(self, reference: str, canonical: str) -> None:
        assert canonical_reference(reference) == canonical

    def test_images(self) -> None:
        text = json.dumps([{"Id": "sha256:2", "RepoTags": ["a:1"], "RepoDigests": [f"vllm/x@{DIGEST}"]}])
        references = [f"docker.io/vllm/x@{DIGEST}", f"vllm/y@{DIGEST}", "a:1"]
        assert list(parse_docker_images(text, references).values()) == ["sha256:2", None, "sha256:2"]

    def test_an_image_without_names(self) -> None:
        text = json.dumps([{"Id": "sha256:2", "RepoTags": None, "RepoDigests": None}])
        assert parse_docker_images(text, ["a@sha256:2"]) == {"a@sha256:2": None}

    def test_containers(self) -> None:
        text = json.dumps(
            [
                {
                    "Name": "/firstlight-ray",
                    "State": {"Running": True, "Status": "running"},
                    "Config": {"Image": f"vllm/x@{DIGEST}"},
                    "Image": "sha256:2",
                }
            ]
        )
        assert parse_docker_containers(text, ["firstlight-ray", "firstlight-server"]) == {
            "firstlight-ray": {"exists": True, "running": True, "image": f"vllm/x@{DIGEST}"},
            "firstlight-server": {"exists": False, "running": False, "image": None},
        }

    @pytest.mark.parametrize("text", ["", "[]", "\n"])
    def test_nothing_found(self, text: str) -> None:
        assert parse_docker_images(text, ["a"]) == {"a": None}
        assert parse_docker_containers(text, ["a"])["a"]["exists"] is False

    @pytest.mark.parametrize("text", ["[", "{}", "Cannot connect to the Docker daemon"])
    def test_not_json_is_an_error(self, text: str) -> None:
        with pytest.raises(ValueError, match="docker image inspect"):
            parse_docker_images(text, ["a"])
        with pytest.raises(ValueError, match="docker container inspect"):
            parse_docker_containers(text, ["a"])


class TestNvidiaSmi:
    def test_list(self) -> None:
        text = (
            "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a)\n"
            "  MIG 3g.40gb     Device  0: (UUID: MIG-01)\n"
            "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-0b)\n"
        )
        reading = parse_gpu_list(text)
        assert [(gpu.index, gpu.name, gpu.uuid) for gpu in reading.gpus] == [
            (0, "NVIDIA H100 80GB HBM3", "GPU-0a"),
            (1, "NVIDIA H100 80GB HBM3", "GPU-0b"),
        ]
        assert reading.complaints == ()

    def test_query(self) -> None:
        reading = parse_query_gpu(
            "0, NVIDIA H200, 143771, 580.159.04, GPU-1\n1, NVIDIA H200, 143771 MiB, 580.159.04, GPU-2\n"
        )
        assert [gpu.memory_mib for gpu in reading.gpus] == [143771, 143771]
        assert reading.gpus[0].driver == "580.159.04"

    def test_unified_memory_reports_none(self) -> None:
        (gpu,) = parse_query_gpu("0, NVIDIA GB10, [N/A], 580.142, GPU-1\n").gpus
        assert (gpu.name, gpu.memory_mib) == ("NVIDIA GB10", None)

    def test_a_lost_gpu_is_a_complaint_beside_the_others(self) -> None:
        lost = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error"
        reading = parse_query_gpu(f"{lost}\n0, NVIDIA H200, 143771, 580.159.04, GPU-1\n")
        assert len(reading.gpus) == 1
        assert reading.complaints == (lost,)

    @pytest.mark.parametrize("parse", [parse_gpu_list, parse_query_gpu])
    def test_a_driver_that_does_not_answer(self, parse: Callable[[str], GpuReading]) -> None:
        lines = (
            "Failed to initialize NVML: Driver/library version mismatch",
            "NVML library version: 580.142",
        )
        assert parse("\n".join(lines)) == GpuReading((), lines)
        assert parse("") == GpuReading()


@given(st.text())
def test_parsers_of_plain_text_never_raise(text: str) -> None:
    parse_os_release(text)
    total_bytes(text)
    parse_dpkg_query(text, ["a"])
    parse_systemctl_show(text, ["a"])
    parse_gpu_list(text)
    parse_query_gpu(text)
    strip_ansi(text)
