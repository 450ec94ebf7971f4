# SPDX-License-Identifier: Apache-2.0
"""The action of `repin`, and the module that it calls: whatever goes wrong ends in a verdict."""

from __future__ import annotations

from typing import Any, NoReturn
from unittest import mock

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.firstlight.cluster.plugins.action import repin as action_plugin
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt import AptError
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.deb_store import StoreError
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.files import FilesError
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.journal import JournalError
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.machine import PROBLEMS
from ansible_collections.firstlight.cluster.plugins.modules import repin

PROMPT = "Timeout (12s) waiting for privilege escalation prompt: "


def run(answer: Any, check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    """What the action returns where the host answers like that."""
    task = mock.MagicMock(args={"action": "move", **arguments}, check_mode=check_mode, async_val=0, diff=False)
    action = action_plugin.ActionModule(task, *(mock.MagicMock() for _ in range(5)))
    with mock.patch.object(action, "_execute_module", lambda *, module_args=None, **_: answer(module_args)):
        return action.run(task_vars={"inventory_hostname": "spark1"})


def failing(error: Exception) -> Any:
    def answer(_: dict[str, Any]) -> NoReturn:
        raise error

    return answer


@pytest.mark.parametrize("check_mode", [False, True])
def test_an_error_of_ansible_is_a_verdict(check_mode: bool) -> None:
    result = run(failing(AnsibleError(PROMPT)), check_mode)
    assert (result["outcome"], result["changed"]) == ("failed", False)
    assert "waiting for privilege escalation prompt" in result["problem"]
    assert not result.get("failed")


def test_an_error_in_the_middle_keeps_what_is_known(bench: Any) -> None:
    bench.prepare()

    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["action"] == "install":
            raise AnsibleError(PROMPT)
        return dict(bench.do(**{**arguments, "check_mode": False}))

    result = run(answer)
    assert (result["outcome"], result["unchanged_host"]) == ("failed", False)
    assert result["timeline"][-1]["state"] == "staged"
    # The group is put back by the next call.
    assert bench.move(direction="back", reason="it failed").outcome == "rolled-back"


def test_a_single_step_is_the_module_s() -> None:
    assert run(lambda arguments: {"got": arguments}, action="drain")["got"] is None  # those of the task, as they are


def test_a_lost_connection_is_not_such_an_error() -> None:
    assert run(failing(AnsibleConnectionFailure("no route")), unreachable_timeout=-1)["outcome"] == "lost"


class EndError(Exception):
    """What exit_json and fail_json do here."""


class Module:
    """Stands in for AnsibleModule."""

    check_mode = False

    def __init__(self, argument_spec: dict[str, Any], **_: Any) -> None:
        self.params = {name: one.get("default") for name, one in argument_spec.items()} | {"action": "drain"}

    def exit_json(self, **result: Any) -> None:
        raise EndError(result)

    def fail_json(self, **result: Any) -> None:
        raise EndError(result)


@pytest.mark.parametrize(
    "error",
    [
        *(AptError("a"), StoreError("a"), FilesError("a"), JournalError("a")),
        *(OSError(28, "No space left on device"), KeyError("drain"), ValueError("Invalid isoformat string")),
    ],
)
def test_a_module_that_was_not_cut_off_says_so(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def perform(*_: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(repin, "AnsibleModule", Module)
    monkeypatch.setattr(repin, "perform", perform)
    with pytest.raises(EndError) as ended:
        repin.main()
    result = ended.value.args[0]
    assert result["refused"] is True
    assert result["msg"]


def test_each_way_an_action_can_end_badly_is_told(bench: Any) -> None:
    """As the controller hears it: one of the errors that the module answers with `refused`."""
    cases: list[tuple[str, dict[str, Any]]] = [
        ("fetch", {}),
        ("stage", {}),
        ("install", {"direction": "forward"}),
        ("request_reboot", {"direction": "forward"}),
        ("note", {"state": "verified", "direction": "forward"}),
        ("uncordon", {}),
        ("drain", {"units": ["firstlight-server.service"], "stop_timeout": 1}),
    ]
    for action, arguments in cases:
        with pytest.raises(PROBLEMS):
            bench.do(action, **arguments)
    bench.begin()
    bench.host.failing.add("systemctl stop")
    with pytest.raises(PROBLEMS, match=r"is still active .* 1 s after it was asked to stop"):
        bench.do("drain", units=["firstlight-server.service"], stop_timeout=1)
    for action, arguments in cases[1:-1]:
        with pytest.raises(PROBLEMS):
            bench.do(action, **arguments)
    with pytest.raises(PROBLEMS):
        bench.do("close")


def test_the_serving_units_may_take_the_time_they_are_given_also_when_installing(bench: Any) -> None:
    bench.prepare()
    bench.do("stage")
    bench.host.units["firstlight-server.service"][0] = True
    bench.host.failing.add("systemctl stop")
    with pytest.raises(PROBLEMS, match=r"is still active .* 7 s after"):
        bench.do("install", direction="forward", stop_timeout=7)
