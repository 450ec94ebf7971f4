# SPDX-License-Identifier: Apache-2.0
"""Taking a lab down on an engine that is too busy to do it at once."""

from __future__ import annotations

import time
from typing import Any

import pytest

from firstlight_lab import containers
from firstlight_lab.host import Engine
from firstlight_lab.shell import LabError

LISTED_BY = {"ps": "rm", "volume": "volume", "network": "network"}


class BusyEngine(Engine):
    """Refuses to remove something as often as it was told to, and is asked again."""

    def __init__(self, errors: dict[str, int]) -> None:
        super().__init__("unix:///x", private=True)
        object.__setattr__(self, "errors", errors)
        object.__setattr__(self, "left", {"rm": ["c1", "c2"], "volume": [], "network": ["n1"]})

    def docker(self, *argv: str, **_: Any) -> str:
        left: dict[str, list[str]] = self.__dict__["left"]
        errors: dict[str, int] = self.__dict__["errors"]
        if argv[0] == "ps" or argv[1] == "ls":
            return "\n".join(left[LISTED_BY[argv[0]]])
        if errors.get(argv[0], 0) > 0:
            errors[argv[0]] -= 1
            left[argv[0]].pop()  # some of it is gone all the same
            raise LabError(f"{argv[0]} failed")
        left[argv[0]].clear()
        return ""


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])


@pytest.mark.parametrize("errors", [{}, {"rm": 1}, {"network": 1}, {"rm": 2, "network": 1}])
def test_a_lab_is_down_when_nothing_of_it_is_left(errors: dict[str, int]) -> None:
    engine = BusyEngine(errors)
    assert containers.remove(engine, "one") == []
    assert engine.__dict__["left"] == {"rm": [], "volume": [], "network": []}


class EngineWithNetwork(Engine):
    """Has one network, with these containers attached, and refuses to remove it."""

    def __init__(self, attached: str = "") -> None:
        super().__init__("unix:///x", private=True)
        object.__setattr__(self, "attached", attached)

    def docker(self, *argv: str, **_: Any) -> str:
        if argv[0] != "network":
            return ""
        if argv[1] == "inspect":
            return str(self.__dict__["attached"]) if "Containers" in argv[3] else "172.29.7.0/24\n"
        if argv[1] == "ls":
            return "firstlight-one\n" if "--format" in argv else "n1\n"
        raise LabError("network n1 has active endpoints")


def test_a_network_in_use_that_is_never_removed_is_an_error() -> None:
    with pytest.raises(LabError, match="has active endpoints"):
        containers.remove(EngineWithNetwork(attached="c9 "), "one")


def test_a_network_with_a_miscounted_endpoint_is_left_to_the_next_start() -> None:
    assert containers.remove(EngineWithNetwork(), "one") == ["firstlight-one"]
    assert time.monotonic() < containers.REMOVAL_SECONDS


def test_a_network_that_had_to_stay_is_the_next_labs_of_this_name() -> None:
    assert containers.create_network(EngineWithNetwork(), "one") == "172.29.7"


def test_without_a_name_all_that_is_left_of_any_lab_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def docker(_: Engine, *argv: str, **__: Any) -> str:
        asked.append(argv[-1])
        return ""

    monkeypatch.setattr(BusyEngine, "docker", docker)
    containers.remove(BusyEngine({}), None)
    assert asked == ["label=firstlight.lab"] * 3
