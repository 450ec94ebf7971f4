# SPDX-License-Identifier: Apache-2.0
"""The directory in use and the one before it stay; nothing else of anybody's goes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import INDEX_NAME
from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache_files import check_cache, keep_cache
from ansible_collections.firstlight.cluster.plugins.module_utils.problems import SettingsError


def use(root: Path, name: str, *, keep: int = 2, check_mode: bool = False) -> tuple[bool, list[str]]:
    found = keep_cache(str(root / name), keep, None, check_mode)
    return bool(found), [words.split()[2] for words in found if "is there" in words]


def left(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_root_enters_and_everybody_writes_below(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "compile-cache"
    assert use(root, "a") == (True, [])
    assert (mode(root), mode(root / "a")) == (0o700, 0o1777)
    assert use(root, "a") == (False, [])


def test_an_owner_has_it_alone(tmp_path: Path) -> None:
    user = os.environ.get("USER") or "root"
    try:
        keep_cache(str(tmp_path / "x" / "a"), 2, user, False)
    except SettingsError:
        pytest.fail(f"the user {user} of this test cannot own a directory")
    assert mode(tmp_path / "x" / "a") == 0o700


def test_the_one_before_stays_for_the_way_back_and_older_ones_go(tmp_path: Path) -> None:
    for name in ("a", "b"):
        use(tmp_path, name)
        (tmp_path / name / "kernel").write_text(name)
    assert use(tmp_path, "c") == (True, ["a"])
    assert left(tmp_path) == ["b", "c"]
    # Back to the one before: it is the current one now, and what it had is there.
    assert use(tmp_path, "b") == (True, [])
    assert (tmp_path / "b/kernel").read_text() == "b"
    assert use(tmp_path, "d") == (True, ["c"])
    assert left(tmp_path) == ["b", "d"]
    assert json.loads((tmp_path / INDEX_NAME).read_text()) == ["d", "b"]


def test_check_mode_tells_and_touches_nothing(tmp_path: Path) -> None:
    for name in ("a", "b"):
        use(tmp_path, name)
    assert use(tmp_path, "c", check_mode=True) == (True, ["a"])
    assert left(tmp_path) == ["a", "b"]
    assert use(tmp_path / "none", "a", check_mode=True) == (True, [])
    assert not (tmp_path / "none").exists()


def test_what_was_never_noted_and_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("a", "b"):
        use(root, name)
    (root / "somebody-elses").mkdir()
    (root / "a").rmdir()
    (root / "a").symlink_to(elsewhere)
    assert use(root, "c") == (True, [])
    assert elsewhere.is_dir()
    assert {"somebody-elses", "b", "c"} <= set(left(root))


@pytest.mark.parametrize("text", ["", "{}", '"a"', '["../../etc", 7, ".", "a/../.."]'])
def test_an_index_that_makes_no_sense_removes_nothing(tmp_path: Path, text: str) -> None:
    root = tmp_path / "root"
    use(root, "a")
    (root / INDEX_NAME).write_text(text)
    assert use(root, "b", keep=1) == (True, [])
    assert left(root) == ["a", "b"]


def test_a_directory_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    use(tmp_path, "a")
    (tmp_path / "a").rmdir()
    assert use(tmp_path, "a") == (True, [])
    assert mode(tmp_path / "a") == 0o1777


@pytest.mark.parametrize(
    ("path", "keep"),
    [("/etc", 2), ("/var/lib/firstlight/compile-cache/a/b", 2), ("/var/lib/firstlight/compile-cache/a", 0)],
)
def test_where_others_may_be_nothing_is_removed(path: str, keep: int) -> None:
    with pytest.raises(SettingsError, match="right below"):
        check_cache(path, keep)
