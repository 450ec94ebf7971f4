# SPDX-License-Identifier: Apache-2.0
"""What is taken out of the texts of a report."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import LONGEST, cleaned, words

from tests.unit import report_samples as samples


def test_addresses_of_ports_are_never_told() -> None:
    told = [f"{samples.UUID} behind {samples.MAC}"]
    assert cleaned(told, serials=True) == [f"{samples.UUID} behind <removed>"]
    assert cleaned(told) == ["<removed> behind <removed>"]


@pytest.mark.parametrize("secret", [samples.UUID, samples.MAC, f"serial number: {samples.SERIAL}", f"hf_{'a1b2' * 8}"])
def test_no_part_of_a_device_or_secret_stays_where_a_long_text_is_cut(secret: str) -> None:
    for place in range(len(secret)):
        before = "-" * (LONGEST - place - 2) + " "
        cut = cleaned(words(f"{before}{secret} and more"))
        assert len(cut) <= LONGEST
        assert cut.removesuffix("…") in f"{before}<removed> and more"


def test_a_device_before_the_cut_stays_where_it_is_asked_for() -> None:
    assert words(f"{samples.UUID} {'-' * LONGEST}").startswith(samples.UUID)
