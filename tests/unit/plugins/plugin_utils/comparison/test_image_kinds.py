# SPDX-License-Identifier: Apache-2.0
"""When an image is right: there, the one that was checked, and the head's."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.image_kinds import image_words

WANT = {"reference": "r@sha256:1", "requires": {"vllm": "0.32.0", "ray": "2.60.0"}, "same_as": "spark0"}
RECORD = {"id": "sha256:a", "image": "r@sha256:1", "name": "n", "requires": {"ray": "2.60.0", "vllm": "0.32.0"}}
HAVE = {"exists": True, "id": "sha256:a", "record": RECORD}
HEAD = {"spark0": {"images": {"n": {"exists": True, "id": "sha256:a", "record": RECORD}}}}


def sentences(have: dict[str, Any] | None, peers: dict[str, Any] = HEAD, want: dict[str, Any] = WANT) -> list[str]:
    observed = {} if have is None else {"n": have}
    return explain(differences({"images": {"n": want}}, {"images": observed}, peers))


def test_a_right_image() -> None:
    assert sentences(HAVE) == []
    assert sentences({**HAVE, "record": None}, {}, {}) == []


@pytest.mark.parametrize(
    ("have", "peers", "words"),
    [
        (None, HEAD, "image n is unknown, expected present"),
        ({"exists": False, "id": None, "record": None}, HEAD, "image n is not present, expected present"),
        ({**HAVE, "record": None}, HEAD, "was not checked (no), expected a check for ray 2.60.0, vllm 0.32.0"),
        ({**HAVE, "record": {**RECORD, "requires": {}}}, HEAD, "was not checked (for something else)"),
        ({**HAVE, "record": {**RECORD, "image": "r@sha256:2"}}, HEAD, "was not checked (for something else)"),
        ({**HAVE, "record": {**RECORD, "id": "sha256:b"}}, HEAD, "has the id sha256:a, expected sha256:b as it was"),
        (HAVE, {}, "is not the same as on spark0 (spark0 has none to compare with)"),
        ({**HAVE, "id": "sha256:b", "record": {**RECORD, "id": "sha256:b"}}, HEAD, "(sha256:b, there sha256:a)"),
    ],
)
def test_what_is_wrong_is_said(have: dict[str, Any] | None, peers: dict[str, Any], words: str) -> None:
    (sentence,) = sentences(have, peers)
    assert words in sentence


def test_a_record_expects_few_words() -> None:
    assert image_words(WANT) == {"exists": True, "image": "r@sha256:1", "same_as": "spark0"}
    assert image_words({}) == {"exists": True}
