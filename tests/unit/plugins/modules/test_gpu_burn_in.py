# SPDX-License-Identifier: Apache-2.0
"""The module's parameters; the run itself is tested with module_utils."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.modules.gpu_burn_in import request_of

PARAMETERS: dict[str, Any] = {
    "image": "r/i@sha256:1",
    "python": None,
    "engine": "",
    "hardware": {"gpus": 8, "gpu_name": "NVIDIA H200"},
    "profile": "h200-sxm-8",
    "device": "cuda",
    "seconds": 5.0,
    "timeout": 300,
    "record": "/r",
    "force": False,
    "accept": ["burn_in.clocks"],
}


def test_parameters_become_a_request() -> None:
    request = request_of(PARAMETERS)
    assert (request.expected.gpus, request.image, request.accept) == (8, "r/i@sha256:1", ("burn_in.clocks",))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image": ""}, "expected one of them"),
        ({"python": "/v/bin/python"}, "expected one of them"),
        ({"hardware": {}}, "the hardware has no gpus"),
    ],
)
def test_what_cannot_be_run_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        request_of({**PARAMETERS, **change})
