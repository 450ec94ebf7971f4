# SPDX-License-Identifier: Apache-2.0
"""Two nodes with firewall, endpoint and metrics, as strangers and those who look for secrets see them.

What a client sees takes one node: tests/e2e/single_node.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.e2e.exposed.client import (
    HEAD,
    HTTPS,
    WORKER,
    address,
    asked,
    key,
    left,
    site_without,
    state,
    with_intent,
)
from tests.e2e.exposed.secrets import KNOWN_TO_ROOT, Told, secrets_of, seen_in, seen_on, text_of
from tests.e2e.exposed.stranger import (
    METRICS,
    PLANNED,
    SHARE,
    SSH,
    by_way_of,
    link_local,
    listener,
    listening,
    on_the_fabric,
    reached,
)
from tests.e2e.serving.lab import EXPOSED, Run, Serving
from tests.e2e.serving.places import clear, take_place
from tests.e2e.serving.processes import wait_for

STRANGER, WATCHER = "spark2", "spark3"
FABRIC = {HEAD: "192.168.100.10", WORKER: "192.168.100.11"}
PORT, STRANGERS = "enp1s0f1np1", "192.168.100.77/24"
KEYS = ("alice", "ci")


@pytest.fixture(scope="module")
def second_run(rack: Serving, told: Told) -> Run:
    """A run of site.yml that has nothing to do."""
    del told
    take_place(rack, EXPOSED)
    return rack.playbook("site.yml")


# -- a run ----------------------------------------------------------------------------------------------------------


def test_a_second_run_changes_nothing(second_run: Run) -> None:
    assert second_run.changed == {**dict.fromkeys(EXPOSED.nodes, 0)}, second_run.output[-6000:]


def test_check_mode_says_the_same(exposed: Serving) -> None:
    run = exposed.playbook("site.yml", "--check", "-e", "firstlight_full=true")
    assert set(run.changed.values()) == {0}, run.output[-6000:]


# -- strangers ------------------------------------------------------------------------------------------------------


def everything_reached(serving: Serving) -> set[tuple[str, int]]:
    """What a stranger reaches of the two nodes, by node and port, by every way that there is."""
    found: set[tuple[str, int]] = set()
    fabric = on_the_fabric(serving, STRANGER, STRANGERS, PORT)
    with fabric, listener(serving, WORKER, SHARE), listener(serving, HEAD, SHARE):
        for node in EXPOSED.nodes:
            ports = listening(serving, node) | PLANNED
            own, inner = address(serving, node), FABRIC[node]
            local = [f"{one}%{PORT}" for one in link_local(serving, node, PORT)]
            found |= {(node, port) for _, port in reached(serving, STRANGER, [own, inner, *local], ports)}
            with by_way_of(serving, STRANGER, own, inner, PORT):
                found |= {(node, port) for _, port in reached(serving, STRANGER, [own], ports)}
            with by_way_of(serving, STRANGER, inner, own, "eth0"):
                found |= {(node, port) for _, port in reached(serving, STRANGER, [inner], ports)}
    return found


def test_a_stranger_reaches_ssh_and_the_endpoint(exposed: Serving) -> None:
    assert everything_reached(exposed) == {(HEAD, SSH), (HEAD, HTTPS), (WORKER, SSH)}


def test_the_monitoring_host_reads_the_metrics_and_a_stranger_does_not(exposed: Serving) -> None:
    pages = [address(exposed, node) for node in EXPOSED.nodes]
    assert reached(exposed, WATCHER, pages, [METRICS]) == {(page, METRICS) for page in pages}
    assert reached(exposed, WATCHER, pages, PLANNED - {METRICS, HTTPS}) == set()
    program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"
    for page in pages:
        read = exposed.inside(WATCHER, f"python3 -c {shlex.quote(program)} http://{page}:{METRICS}/metrics")
        for source in ("node", "supervisor", "firewall"):
            assert f'firstlight_source_up{{source="{source}"}} 1' in read
    page = exposed.inside(WATCHER, f"python3 -c {shlex.quote(program)} http://{pages[0]}:{METRICS}/metrics")
    assert "vllm:" in page
    assert "firstlight_firewall_dropped_packets_total" in page


def test_without_the_rules_a_stranger_reaches_all_of_it(exposed: Serving) -> None:
    """That the test before could fail; and a run puts the rules back."""
    for node in EXPOSED.nodes:
        exposed.inside(node, "nft delete table inet firstlight")
    try:
        found = everything_reached(exposed)
    finally:
        run = exposed.playbook("site.yml")
    assert {(HEAD, 6379), (HEAD, 29600), (HEAD, METRICS), (HEAD, SHARE), (WORKER, METRICS), (WORKER, SHARE)} <= found
    assert all(run.changed.values()), run.output[-4000:]
    assert everything_reached(exposed) == {(HEAD, SSH), (HEAD, HTTPS), (WORKER, SSH)}
    exposed.assert_serves()


# -- secrets --------------------------------------------------------------------------------------------------------


def test_secrets_are_nowhere(exposed: Serving, told: Told, tmp_path: Path) -> None:
    secrets = {**secrets_of(exposed, KEYS), "the token of the share": told.share_token}
    assert {"/etc/firstlight/cluster.token", "/etc/firstlight/supervisor-spark1.token"} <= set(secrets)
    assert "Fetch the model files from the sharing host" in told.output
    assert seen_in(told.output, secrets) == []
    for node in EXPOSED.nodes:
        assert set(seen_on(exposed, node, secrets)) <= KNOWN_TO_ROOT, node
    reports = ("-e", f"verify_report={tmp_path / 'verify.json'}", "-e", f"plan_document={tmp_path / 'plan.json'}")
    exposed.playbook("playbooks/verify.yml", *reports, fails=None)
    plan = exposed.command("firstlight", "plan", "-i", EXPOSED.inventory, "--json").output
    exposed.command("firstlight", "collect", "-i", EXPOSED.inventory, "--output", str(tmp_path / "bundle"))
    for text in (plan, *((tmp_path / name).read_text() for name in ("verify.json", "plan.json"))):
        assert seen_in(text, secrets) == []
    assert (tmp_path / "bundle").is_dir()
    assert seen_in(text_of(tmp_path / "bundle"), secrets) == []


def test_a_secret_that_lies_about_is_found(exposed: Serving) -> None:
    """That the test before could fail."""
    secrets = {"one": "a-secret-that-lies-about-in-many-places"}
    exposed.inside(HEAD, f"echo {secrets['one']} | base64 > /etc/firstlight/left; logger {secrets['one']}")
    try:
        seen = seen_on(exposed, HEAD, secrets)
    finally:
        exposed.inside(HEAD, "rm /etc/firstlight/left")
    assert seen == ["one in /etc/firstlight/left", "one in the journal"]


# -- going away -----------------------------------------------------------------------------------------------------


def test_clients_are_told_that_a_cluster_is_drained_until_it_is_back(exposed: Serving) -> None:
    exposed.playbook("playbooks/drain.yml", "-e", "reason='a new cable'")
    try:
        assert asked(exposed, "/v1/models", key(exposed, "alice")) == (503, "engine_down")
        assert asked(exposed, "/v1/models") == (401, "invalid_api_key")
    finally:
        exposed.playbook("playbooks/uncordon.yml")
    wait_for(
        lambda: asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200,
        300,
        "that the endpoint answers",
        exposed.diagnosis,
    )


def test_what_an_intent_no_longer_names_stays_until_it_is_disabled(exposed: Serving, tmp_path: Path) -> None:
    silent = site_without(exposed, tmp_path, "firstlight_firewall", "firstlight_endpoint", "firstlight_monitoring")
    run = exposed.command(*silent)
    assert set(run.changed.values()) == {0}, run.output[-6000:]
    for role in ("firewall", "endpoint", "monitoring"):
        assert f"set firstlight_{role} to {{enabled: false}}" in run.output
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    off = {"enabled": False}
    gone = with_intent(firstlight_firewall=off, firstlight_endpoint=off, firstlight_monitoring=off)
    exposed.playbook("site.yml", "--check", *gone)
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    exposed.playbook("site.yml", *gone)
    for node in EXPOSED.nodes:
        assert left(exposed, node) == "", node
    assert not list(state(exposed).rglob("*.header"))
    run = exposed.playbook("site.yml", *gone)
    assert set(run.changed.values()) == {0}, run.output[-6000:]
    exposed.assert_serves()
    exposed.playbook("site.yml")


def test_a_teardown_takes_all_of_it(exposed: Serving) -> None:
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    check = exposed.playbook("playbooks/teardown.yml", "--check").output
    assert all(f"  {HEAD}  {role}" in check for role in ("endpoint", "monitoring", "firewall")), check[-4000:]
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    clear(exposed)
    for node in EXPOSED.nodes:
        assert left(exposed, node) == "", node
    assert not list(state(exposed).rglob("*.header"))
    again = exposed.playbook("playbooks/teardown.yml", "-e", f"teardown_confirm={HEAD}")
    assert set(again.changed.values()) == {0}, again.output[-4000:]
