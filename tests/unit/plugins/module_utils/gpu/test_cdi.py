# SPDX-License-Identifier: Apache-2.0
"""What a CDI specification hands to a container, and whether that is what the host has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.cdi import (
    names_kind,
    parse_specification,
    problems,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain

UUIDS = ("GPU-11111111-aaaa", "GPU-22222222-bbbb")
YAML = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
"""


def document(names: tuple[str, ...] = ("0", "1", *UUIDS, "all"), driver: str = "580.95.05") -> dict[str, Any]:
    paths = [f"/usr/lib/x86_64-linux-gnu/{name}.{driver}" for name in ("libcuda.so", "libnvidia-ml.so")]
    mounts = [{"hostPath": path, "containerPath": path} for path in [*paths, "/usr/bin/nvidia-smi"]]
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}} for name in names],
        "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "mounts": mounts},
    }


def wrong(found: dict[str, Any], driver: str = "580.95.05") -> dict[str, Any]:
    return problems(parse_specification(json.dumps(found)), UUIDS, driver)


def test_a_specification_that_fits() -> None:
    assert wrong(document()) == {}
    # The toolkit named GPUs by index only until 1.14, or by type and index where it was told so.
    assert wrong(document(("0", "1", "all"))) == {}
    assert wrong(document(("gpu0", "gpu1", "all"))) == {}


def test_one_that_does_not() -> None:
    assert wrong(document(), "580.126.09") == {"driver": ("580.126.09", "580.95.05")}
    assert wrong(document(("0", UUIDS[0], "all"))) == {"gpus": (2, 1)}
    other = document(("0", "1", UUIDS[0], "GPU-33333333-cccc", "all"))
    assert wrong(other) == {"gpus": (list(UUIDS), [UUIDS[0], "GPU-33333333-cccc"])}
    assert wrong({**document(), "kind": "example.com/gpu"}) == {"kind": ("nvidia.com/gpu", "example.com/gpu")}
    assert wrong({**document(), "containerEdits": {}}) == {"driver": ("580.95.05", None)}


@pytest.mark.parametrize(
    ("text", "words"), [("", "it is not JSON"), (YAML, "it is not JSON"), ("[]", "no kind"), ("{}", "no kind")]
)
def test_what_is_no_specification(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_specification(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (YAML, True),
        (json.dumps(document()), True),
        (json.dumps(document(), indent=2), True),
        (YAML.replace("nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu"), False),
        (YAML.replace("nvidia.com/gpu", "nvidia.com/gpu.coherent"), False),
        ("nothing: here\n", False),
    ],
)
def test_whose_devices_a_file_names(text: str, expected: bool) -> None:
    assert names_kind(text, "nvidia.com/gpu") is expected


def test_differences_in_words() -> None:
    desired = {"cdi": {"/etc/cdi/nvidia.json": {"kind": "nvidia.com/gpu"}}}

    def told(entry: dict[str, Any] | None) -> list[str]:
        return explain(differences(desired, {"cdi": {"/etc/cdi/nvidia.json": entry} if entry else {}}))

    path = "CDI specification /etc/cdi/nvidia.json"
    assert told({"exists": True, "waiting": None, "wrong": {}}) == []
    assert told(None) == [f"{path} has exists unknown, expected exists yes"]
    assert told({"exists": False, "waiting": None, "wrong": {}}) == [f"{path} is missing, expected it to exist"]
    assert told({"exists": True, "waiting": "no answer", "wrong": {}}) == [
        f"{path} cannot be written (no answer), expected a driver that answers"
    ]
    assert told({"exists": True, "waiting": None, "wrong": {"driver": ["580.126.09", "580.95.05"]}}) == [
        f"{path} has driver 580.95.05, expected driver 580.126.09"
    ]
