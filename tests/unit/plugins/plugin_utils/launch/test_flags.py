# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.flags import flag_name


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("--max-model-len", "--max-model-len"),
        ("--max_model_len=4", "--max-model-len"),
        ("-tp", "-tp"),
        ("4", None),
        ("-1", None),
        ("", None),
    ],
)
def test_one_name_however_it_is_written(word: str, name: str | None) -> None:
    assert flag_name(word) == name
