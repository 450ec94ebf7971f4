# SPDX-License-Identifier: Apache-2.0
"""What is taken out of the texts of a report."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import cleaned

from tests.unit import report_samples as samples


def test_addresses_of_ports_are_never_told() -> None:
    told = [f"{samples.UUID} behind {samples.MAC}"]
    assert cleaned(told, serials=True) == [f"{samples.UUID} behind <removed>"]
    assert cleaned(told) == ["<removed> behind <removed>"]
