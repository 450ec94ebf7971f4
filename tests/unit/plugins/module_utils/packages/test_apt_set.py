# SPDX-License-Identifier: Apache-2.0
"""What may happen when a set is installed, and the files that keep it."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_set import (
    apt_words,
    differing,
    evaluate,
    exclusion_text,
    preferences_text,
    sources_text,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt import Step

SET = {"driver": "2", "library": "2", "headers": None}


def test_only_what_differs_is_asked_for() -> None:
    assert differing(SET, {"driver": "2", "library": "1", "headers": None}) == ["headers", "library"]
    assert differing(SET, {"driver": "2", "library": "2", "headers": "9"}) == []
    assert apt_words(SET, ["headers", "library"]) == ["headers", "library=2"]


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [Step("driver", None, "2"), Step("library", "1", "2")],
        [Step("driver", "3", "2"), Step("headers", None, "9")],
        [Step("dkms", None, "3.0")],
        [Step("old-driver", "1", None), Step("driver", None, "2")],
    ],
)
def test_a_transaction_of_the_set_may_run(steps: list[Step]) -> None:
    assert evaluate(steps, SET, {"old-driver"}) == []


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Step("libc6", "2.36", "2.39"), "libc6 would change from 2.36 to 2.39, although it is not in the set"),
        (Step("docker.io", "20", None), "docker.io 20 would be removed, but is not part of the set"),
        (Step("library", "2", None), "library would be removed, although it belongs to the set"),
        (Step("library", None, "3"), "library would be 3, its pin is 2"),
    ],
)
def test_anything_else_is_refused(step: Step, words: str) -> None:
    assert evaluate([Step("driver", "1", "2"), step], SET, {"old-driver"}) == [words]


def test_what_a_set_never_brings_is_refused_as_a_dependency_and_only_so() -> None:
    steps = [Step("nvidia-driver-580", None, "580.1"), Step("nvidia-driverless", None, "1"), Step("driver", "1", "2")]
    assert evaluate(steps, SET, (), ("nvidia-driver", "driver")) == [
        "nvidia-driver-580 580.1 would be installed, although this set never installs it"
    ]


def test_files() -> None:
    source = {"uris": ["http://a", "http://b"], "suites": "noble", "components": ["main", "extra"]}
    assert sources_text("# head\n", source, "/k.asc") == (
        "# head\nTypes: deb\nURIs: http://a http://b\nSuites: noble\nComponents: main extra\nSigned-By: /k.asc\n"
    )
    flat = {"uris": ["file:/srv/nvidia"], "suites": ["./"], "trusted": True}
    assert sources_text("", flat, "/k.asc") == "Types: deb\nURIs: file:/srv/nvidia\nSuites: ./\nTrusted: yes\n"
    assert preferences_text("# head\n", SET, {"a.example": list(SET)}) == (
        "# head\n\nPackage: driver\nPin: version 2\nPin-Priority: 1001\n\n"
        'Package: headers\nPin: origin "a.example"\nPin-Priority: 500\n\n'
        "Package: library\nPin: version 2\nPin-Priority: 1001\n\n"
        'Package: *\nPin: origin "a.example"\nPin-Priority: -1\n'
    )
    assert exclusion_text("", ["b", "a-1.2", "a-1.2"]) == (
        'Unattended-Upgrade::Package-Blacklist {\n    "^a-1\\.2$";\n    "^b$";\n};\n'
    )
    with pytest.raises(ValueError, match="neither a string nor a list"):
        sources_text("", {"uris": 3}, "")
