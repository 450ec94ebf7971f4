# SPDX-License-Identifier: Apache-2.0
"""What a hostile host may answer: anything in documents of the right shape, and text that a terminal obeys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

ESCAPES = "\x1b]0;pwned\x07\x1b[2J\x9b31m\r\x08"
"""Sets a title, clears the screen, colours, and goes back over what was printed."""
TEMPLATE = "{{ lookup('ansible.builtin.pipe', 'touch /tmp/pwned') }}"

SCALARS = st.sampled_from(
    [None, True, -1, 0, 7, 1e308, float("nan"), 10**40, "", "x", ESCAPES, TEMPLATE, "../../.bashrc", "/etc/passwd"]
)


def documents(names: Sequence[str], depth: int = 12) -> st.SearchStrategy[Any]:
    """Values of JSON, with dictionaries of these names."""
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=6),
        max_leaves=depth,
    )
