# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.repeated_keys import check_repeated_keys


def found(text: str, directory: Path) -> list[str]:
    (directory / "group_vars").mkdir()
    (directory / "group_vars" / "all.yml").write_text(text)
    errors = PlanErrors()
    check_repeated_keys([str(directory)], errors)
    return [one["found"] for one in errors.found]


def test_a_key_that_stands_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    (told,) = found("a: 1\nb:\n  - c: 1\n    d: 2\n    c: 3\n", tmp_path)
    assert told == f"{tmp_path}/group_vars/all.yml has 'c' twice in one mapping, in line 3 and in line 5"


@pytest.mark.parametrize(
    "text",
    [
        "a: {x: 1}\nb: {x: 1}\n",
        "base: &base {a: 1}\nmine:\n  <<: *base\n  a: 2\n",
        "base: &base {a: 1}\nmine: [*base, *base]\n",
        "secret: !vault |\n  abc\n",
        "a: [1\n",
        "",
    ],
    ids=["two mappings", "in place of an anchor's", "an alias", "a tag of Ansible's", "not YAML", "empty"],
)
def test_what_is_right_or_somebody_elses_matter_is_left(text: str, tmp_path: Path) -> None:
    assert found(text, tmp_path) == []
