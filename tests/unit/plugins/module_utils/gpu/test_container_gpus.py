# SPDX-License-Identifier: Apache-2.0
"""What a container sees of the GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.container_gpus import arguments, evaluate
from ansible_collections.firstlight.cluster.plugins.modules.gpu_info import container_gpus

from tests.unit.fake_host import FakeHost

LISTED = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-22)\n"
OCI = (
    "docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed: "
    "error running hook #0: exit status 1, stdout: , stderr: "
)
MISMATCH = f"{OCI}nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown.\n"
NO_HOOK = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
NO_IMAGE = "docker: Error response from daemon: No such image: x@sha256:0.\n"


def test_every_gpu_is_seen() -> None:
    docker = FakeHost({"docker": LISTED})
    assert container_gpus("engine@sha256:1", 2, 9.0, docker) == ["GPU-11", "GPU-22"]
    assert docker.ran == [tuple(arguments("engine@sha256:1"))]
    assert {"--pull=never", "--network=none", "--rm"} < set(docker.ran[0])


@pytest.mark.parametrize(
    ("rc", "stdout", "stderr", "problem", "words"),
    [
        (0, LISTED, "", "", "sees 2 GPUs, expected 8 GPUs: compare with `nvidia-smi -L`"),
        (
            125,
            "",
            NO_HOOK,
            "",
            "could not select device driver.*expected 8 GPUs: Docker has not found the container to",
        ),
        (125, "", MISMATCH, "", "driver/library version mismatch.*the loaded driver is not the installed one: reboot"),
        (125, "", NO_IMAGE, "", "the image is not on the host"),
        (124, "", "", "docker gave no answer within 120 s", "no answer within 120 s.*see what `docker run"),
        (6, "No devices were found\n", "", "", "No devices were found"),
        (1, "", "", "", "docker returned 1"),
        (15, LISTED + "Unable to determine the device handle for GPU2\n", "", "", "sees 2 GPUs .Unable to determine"),
    ],
)
def test_what_was_found_is_said(rc: int, stdout: str, stderr: str, problem: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        evaluate(rc, stdout, stderr, problem, "engine", 8)


def test_one_gpu_is_one_gpu() -> None:
    with pytest.raises(ValueError, match="sees 2 GPUs, expected 1 GPU:"):
        evaluate(0, LISTED, "", "", "engine", 1)
