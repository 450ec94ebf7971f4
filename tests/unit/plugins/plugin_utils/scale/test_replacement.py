# SPDX-License-Identifier: Apache-2.0
"""Is the machine that answers the one that the inventory names?"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.scale.replacement import (
    replacement_message,
    replacement_problem,
)

PLACE = {"name": "a", "position": 3, "serial": "S2"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"serial": "S2"}, ""),
        ({"serial": "S1"}, "has the serial S1, expected S2, the one in the inventory"),
        ({"serial": ""}, "has no serial number, expected S2"),
        ({"failed": True, "msg": "no root"}, "cannot be read (no root)"),
        ({"unreachable": True, "msg": "Connection timed out"}, "c (10.0.0.3) does not answer (Connection timed out)"),
        (
            {"unreachable": True, "msg": "@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@"},
            "`firstlight bootstrap --nodes nodes.yml c -i inventory/mine --replaces c`",
        ),
    ],
)
def test_what_is_wrong_with_it(answer: dict[str, Any], said: str) -> None:
    problem = replacement_problem("c", answer, PLACE, "10.0.0.3", "inventory/mine")
    assert said in problem
    assert bool(problem) is bool(said)


def test_without_a_serial_in_the_inventory_nobody_can_tell_which_is_said() -> None:
    assert replacement_problem("c", {"serial": "S9"}, {}, "c", "") == ""
    assert replacement_message("c", {"serial": "S9"}, {}).startswith(
        "c is the machine S9; the inventory has no serial for"
    )
    assert replacement_message("c", {"serial": "S2"}, PLACE) == "c is the machine S2, as in the inventory"
