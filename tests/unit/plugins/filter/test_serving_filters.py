# SPDX-License-Identifier: Apache-2.0
"""The filter of day two: what it refuses."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.serving_belongings import serving_belongings


def test_what_it_cannot_use_is_named() -> None:
    with pytest.raises(AnsibleFilterError, match="firstlight_plan"):
        serving_belongings("x")
