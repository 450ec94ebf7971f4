# SPDX-License-Identifier: Apache-2.0
"""A second operator on a cluster that serves: told who is at work, and stopped before anything is changed."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.lease import PATH as LEASE

from tests.e2e.support import Checkout

BOB = {
    "run": "ffffffffffffffff-4711-1",
    "owner": "bob@laptop",
    "machine": "ffffffffffffffff",
    "pid": 4711,
    "playbook": "repin.yml",
    "since": "2026-11-15 09:00:04 UTC",
}


@pytest.mark.extended  # four runs; unit tests run the playbooks against a lease of this machine
def test_the_second_run_says_who_is_at_work_and_stops(cluster: Checkout) -> None:
    beat = f"cat /proc/uptime /proc/sys/kernel/random/boot_id >{LEASE}.beat"
    cluster.inside("spark0", f"printf '%s\\n' '{json.dumps(BOB)}' >{LEASE}; {beat}")
    try:
        refused = cluster.site()
        looked = cluster.run(".venv/bin/ansible-playbook playbooks/verify.yml -i inventory/lab", timeout=300)
        checked = cluster.site("--check")
    finally:
        cluster.inside("spark0", f"rm -f {LEASE} {LEASE}.beat")
    told = " ".join(refused.output.split())
    assert refused.status == 2, refused.output
    assert "the cluster is being changed by bob@laptop (repin.yml, process 4711) since 2026-11-15 09:00:04 UTC" in told
    assert "-e firstlight_break_lease=bob@laptop" in told
    assert all(counts["changed"] == 0 for counts in refused.recap.values()), refused.output
    assert (looked.status, checked.status) == (0, 0), "who only looks needs no lease"

    cluster.inside("spark0", f"printf '%s\\n' '{json.dumps(BOB)}' >{LEASE}")
    broken = cluster.site("-e firstlight_break_lease=bob@laptop")
    assert broken.status == 0, broken.output[-6000:]
    assert "The lease of bob@laptop" in broken.output
    cluster.wait_for_lease()
