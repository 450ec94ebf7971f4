# SPDX-License-Identifier: Apache-2.0
"""The commands of day two on four nodes that serve. Each ends where the next one starts: with a completion."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.e2e.serving.lab import HEAD, NODES, Run, Serving

SECOND = "second"
DOES_NOT_LOAD = ("--load-format", "sharded_state")
"""A flag that the engine knows and whose files this model does not have: it fails only when it starts."""


@pytest.fixture(scope="module")
def catalog(rack: Serving, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lab's catalog with a second model: the same weights under another name."""
    own = rack.lab.directory / "catalog"
    model = yaml.safe_load((own / "models/tiny.yml").read_text())
    overlay = tmp_path_factory.mktemp("catalog")
    (overlay / "models").mkdir()
    (overlay / f"models/{SECOND}.yml").write_text(yaml.safe_dump(model | {"name": SECOND}))
    return [str(overlay), str(own)]


def switch(
    serving: Serving, catalog: list[str], model: str, *, fails: bool = False, more: dict[str, object] | None = None
) -> Run:
    chosen = {"model": model, "firstlight_catalog": catalog, **(more or {})}
    return serving.playbook("playbooks/switch_model.yml", "-e", json.dumps(chosen), fails=fails)


def served_model(serving: Serving) -> str:
    with serving.endpoint.client(30) as client:
        return str(client.models.list().data[0].id)


def test_a_second_serve_changes_nothing(serving: Serving) -> None:
    epoch = serving.group()["epoch"]
    run = serving.playbook("playbooks/serve.yml")
    assert set(run.changed.values()) == {0}, run.output[-6000:]
    assert serving.group()["epoch"] == epoch


def test_a_restart_is_a_new_start_of_all(serving: Serving) -> None:
    epoch = serving.group()["epoch"]
    run = serving.playbook("playbooks/restart.yml")
    assert "Serves again" in run.output
    assert serving.group()["epoch"] != epoch
    serving.assert_serves()


def test_one_node_is_drained_and_given_back(serving: Serving) -> None:
    """What serves with it stops; a reboot does not bring it back; the last node that is given back does."""
    run = serving.playbook("playbooks/drain.yml", "--limit", "spark2", "-e", "reason='a new cable'")
    assert "Out of service" in run.output
    assert "a new cable" in serving.command("firstlight", "status", "-i", serving.profile.inventory, fails=None).output
    serving.assert_clean("spark2")
    serving.stopped("spark2", "drained")
    serving.on_all(serving.assert_clean, [node for node in NODES if node != "spark2"])
    serving.reboot("spark2")
    refused = serving.playbook("playbooks/restart.yml", fails=True)
    assert "spark2" in refused.output
    run = serving.playbook("playbooks/uncordon.yml", "--limit", "spark2")
    assert "a new cable" in run.output
    serving.assert_serves()


def test_another_model_and_the_former_one_again(serving: Serving, catalog: list[str]) -> None:
    run = switch(serving, catalog, SECOND)
    assert f"Serves {SECOND}" in run.output
    assert served_model(serving) == SECOND
    serving.assert_serves()
    again = switch(serving, catalog, SECOND)
    assert set(again.changed.values()) == {0}, again.output[-6000:]
    switch(serving, catalog, "tiny")
    assert served_model(serving) == "tiny"
    serving.assert_serves()


def test_a_model_that_does_not_start_is_put_back(serving: Serving, catalog: list[str]) -> None:
    config = yaml.safe_load((serving.checkout / serving.profile.inventory / "group_vars/all.yml").read_text())
    flags = [*config["firstlight_serving"]["flags"], *DOES_NOT_LOAD]
    run = switch(serving, catalog, SECOND, fails=True, more={"serving": {"flags": flags}})
    assert "tiny was restored and answers" in run.output, run.output[-6000:]
    assert served_model(serving) == "tiny"
    serving.before_a_fault()  # the supervisors call it well, too
    serving.assert_serves()
    logs = serving.command("firstlight", "logs", "-i", serving.profile.inventory, "--since", "15m").output
    assert HEAD in logs
    assert "sharded_state" in logs
