# SPDX-License-Identifier: Apache-2.0
"""One way to serve after the other, on the nodes of one lab."""

from __future__ import annotations

from tests.e2e.serving.engine_starts import note_engine_starts
from tests.e2e.serving.lab import Profile, Serving


def clear(serving: Serving) -> None:
    """Take down what serves; nothing of it is left."""
    serving.playbook("playbooks/teardown.yml", "-e", f"teardown_confirm={serving.profile.head}")
    serving.on_all(serving.assert_clean, serving.profile.nodes)
    serving.serves = False


def take_place(serving: Serving, profile: Profile) -> None:
    """Serve like this, whatever served before; nothing is done where that is so already."""
    if serving.serves and serving.profile == profile:
        serving.restore_service()
        return
    if serving.serves:
        clear(serving)
    serving.profile = profile
    for node in profile.nodes:
        serving.machine(node, profile.hardware)
    serving.playbook("site.yml")
    serving.serves = True
    note_engine_starts(profile.inventory.rpartition("/")[2], serving.groups())
    serving.assert_serves()
