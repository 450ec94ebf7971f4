# SPDX-License-Identifier: Apache-2.0
"""A set that becomes another one."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_moves import (
    foreign,
    pinned_names,
    removal_words,
    touching,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_set import evaluate, preferences_text
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt import Fetch, Step

SET = {"driver": "2", "library": "2", "headers": None}


def test_the_set_is_read_off_the_preferences_that_were_written_for_it() -> None:
    assert pinned_names(preferences_text("# head\n", SET, {"a.example": list(SET)})) == ["driver", "library"]
    assert pinned_names("# Package: commented\nPackage: a\nPin: version 1\nPin-Priority: 1001\n") == ["a"]
    assert pinned_names(None) == []


def test_what_leaves_the_set_may_go_and_nothing_else() -> None:
    steps = [Step("former", "1", None), Step("driver", None, "2")]
    assert evaluate(steps, SET, (), leaving=["former"]) == []
    assert evaluate(steps, SET, ()) == ["former 1 would be removed, but is not part of the set"]
    assert removal_words({"b", "a"}) == ["a-", "b-"]


def test_an_upgrade_is_evaluated_by_what_it_does_to_the_set() -> None:
    steps = [Step("libc6", "1", "2"), Step("driver", "2", "3"), Step("library", "2", None)]
    assert touching(steps, SET) == ["driver from 2 to 3", "library from 2 to nothing"]


def test_a_file_is_known_by_its_hash_not_by_its_place() -> None:
    own = [{"Package": "driver", "SHA256": "AA"}, {"Package": "driver", "SHA256": "bb"}, {"Package": "library"}]
    files = [
        Fetch("http://mirror/driver_2_all.deb", "driver_2_all.deb", 1, "SHA256:aa"),
        Fetch("http://other/library_2_all.deb", "library_2_all.deb", 1, "SHA256:aa"),
        Fetch("http://other/headers_2_all.deb", "headers_2_all.deb", 1, "SHA256:cc"),
        Fetch("http://other/dkms_3_all.deb", "dkms_3_all.deb", 1, "SHA256:dd"),
    ]
    assert foreign(SET, files, own) == ["library 2 from http://other/library_2_all.deb"]
