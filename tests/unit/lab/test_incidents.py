# SPDX-License-Identifier: Apache-2.0
"""Power, faults and the repository of a lab that is up."""

from __future__ import annotations

import http.client
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firstlight_lab import cluster, waiting
from firstlight_lab.cache import Cache
from firstlight_lab.cluster import Lab
from firstlight_lab.images import equipment
from firstlight_lab.incidents import play, power, set_disk, set_faults, set_repository
from firstlight_lab.shell import LabError


class RecordedEngine:
    """An engine that does what it is told by writing it down."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.stdin: str | None = None
        self.answers: dict[str, str] = {}
        """By words of what was asked."""

    def docker(self, *argv: str, stdin: str | None = None, **_: Any) -> str:
        self.calls.append(" ".join(argv))
        self.stdin = stdin
        answer = next((text for words, text in self.answers.items() if words in self.calls[-1]), "")
        return "running\n" if "is-system-running" in argv else answer


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> RecordedEngine:
    made = RecordedEngine()
    monkeypatch.setattr(cluster, "find_engine", lambda _: made)
    monkeypatch.setattr(waiting, "answers", lambda *_: True)
    return made


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab of one node, as its record tells."""
    made = Lab(Cache(tmp_path), "dark", lambda _: None)
    made.directory.mkdir(parents=True)
    node = {"name": "gpu0", "address": "172.29.0.10", "ports": [], "machine": {"profile": "h100-sxm-8", "faults": []}}
    (made.directory / "lab.json").write_text(json.dumps({"network": "172.29.0.0/24", "nodes": [node]}))
    return made


def test_power_off_asks_nobody(lab: Lab, engine: RecordedEngine) -> None:
    power(lab, "gpu0", "off")
    assert engine.calls == ["kill firstlight-dark-gpu0"]


def test_power_on_waits_for_the_node_which_then_survives_its_reboots_again(lab: Lab, engine: RecordedEngine) -> None:
    power(lab, "gpu0", "on")
    assert engine.calls[:2] == ["update --restart=always firstlight-dark-gpu0", "start firstlight-dark-gpu0"]
    assert "exec firstlight-dark-gpu0 timeout 30 systemctl is-system-running --wait" in engine.calls


def test_a_node_that_stays_off_runs_until_it_goes_down(lab: Lab, engine: RecordedEngine) -> None:
    power(lab, "gpu0", "stays-off")
    assert engine.calls == ["update --restart=no firstlight-dark-gpu0"]


def test_the_services_have_a_power_button_too(lab: Lab, engine: RecordedEngine) -> None:
    power(lab, "services", "cycle")
    words = [call.split()[0] for call in engine.calls]
    assert words == ["kill", "update", "start"]


def test_an_unknown_node_is_refused_by_name(lab: Lab, engine: RecordedEngine) -> None:
    with pytest.raises(LabError, match="There is no node 'gpu7' in the lab dark; its nodes are gpu0, services, switch"):
        power(lab, "gpu7", "off")
    with pytest.raises(LabError, match="services has no hardware"):
        set_faults(lab, "services", ["hang"])
    assert engine.calls == []


def test_faults_are_written_to_the_node_or_refused(lab: Lab, engine: RecordedEngine) -> None:
    set_faults(lab, "gpu0", ["module_unloadable:version=580.126.09", "gpu_missing:2"])
    assert engine.calls == ["cp - firstlight-dark-gpu0:/"]
    with tarfile.open(fileobj=io.BytesIO(str(engine.stdin).encode("ascii"))) as archive:
        (member,) = archive.getmembers()
        content = archive.extractfile(member)
        assert member.name == "etc/firstlight-lab/machine.json"
        assert content is not None
        written = json.loads(content.read())
    assert written["faults"] == ["module_unloadable:version=580.126.09", "gpu_missing:2"]
    with pytest.raises(LabError, match="has no parameter release; it takes: version"):
        set_faults(lab, "gpu0", ["module_unloadable:release=580"])


def test_a_node_becomes_another_machine(lab: Lab, engine: RecordedEngine) -> None:
    play(lab, "gpu0", "h100-pcie", ["persistence_off:1"])
    told = [call for call in engine.calls if "systemctl" not in call and " ls " not in call]
    assert told == [
        "exec firstlight-dark-gpu0 find /etc/firstlight-lab/pci -mindepth 1 -delete",
        "kill firstlight-dark-gpu0",
        "cp - firstlight-dark-gpu0:/",
        "update --restart=always firstlight-dark-gpu0",
        "start firstlight-dark-gpu0",
    ]
    assert lab.record()["nodes"][0]["machine"] == {"profile": "h100-pcie", "faults": ["persistence_off:1"]}
    with pytest.raises(LabError, match='fault "persistence_off" names GPU 7, but the profile has GPUs 0 to 1'):
        set_faults(lab, "gpu0", ["persistence_off:7"])
    for profile, faults in (("dgx", []), ("h100-pcie", ["gpu_mising"])):
        with pytest.raises(LabError, match=r"cannot be simulated: .* is not known; use one of"):
            play(lab, "gpu0", profile, faults)


def test_another_machine_in_the_place_of_a_node(lab: Lab, engine: RecordedEngine) -> None:
    keys = lab.directory / "keys"
    keys.mkdir()
    (lab.directory / "id_ed25519.pub").write_text("ssh-ed25519 AAAA\n")
    for name in ("gpu0_ed25519", "gpu0_ed25519.pub"):
        (keys / name).write_text("old\n")
    (lab.directory / "known_hosts").write_text("pinned\n")
    lab.write_record({**lab.record(), "profile": "h100-sxm-8", "fabric_mtu": 9000, "as_delivered": False})
    lab.exchange("gpu0")
    told = [call.split()[0] for call in engine.calls]
    assert told.index("rm") < told.index("create") < told.index("cp") < told.index("start")
    assert "old" not in (keys / "gpu0_ed25519.pub").read_text()
    assert (lab.directory / "known_hosts").read_text() == "pinned\n"
    assert lab.record()["nodes"][0]["replaced"] == 1


@pytest.mark.parametrize(("rate", "told"), [("20mb", 20_000_000), ("800kb", 800_000), ("2gb", 2 * 10**9), ("none", 0)])
def test_a_disk_reads_as_slowly_as_asked(lab: Lab, engine: RecordedEngine, rate: str, told: int) -> None:
    engine.answers = {"{{.Id}} firstlight-dark-gpu0": "0a1b\n", "{{.Config.Image}}": "firstlight-lab/services:1\n"}
    set_disk(lab, "gpu0", rate)
    call = engine.calls[-1]
    assert call.startswith("run --rm --label firstlight.lab=dark --network=none")
    assert "-v /sys/fs/cgroup:/sys/fs/cgroup firstlight-lab/services:1 python3 -c # SPDX" in call
    assert call.endswith(f" 0a1b {told}")


def test_a_rate_that_is_none_is_refused(lab: Lab, engine: RecordedEngine) -> None:
    for rate in ("fast", "0mb", "20", "20mbit"):
        with pytest.raises(LabError, match=f"The rate is '{rate}'; expected a number with kb, mb or gb, such as 20mb"):
            set_disk(lab, "gpu0", rate)
    assert engine.calls == []


def test_the_repository_goes_and_comes_back(lab: Lab, engine: RecordedEngine) -> None:
    set_repository(lab, "gone", "it's")
    set_repository(lab, "back", "")
    assert engine.calls[0].endswith("""printf %s 'it'"'"'s' > /run/apt-gone""")
    assert engine.calls[1].endswith("rm -f /run/apt-gone")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[tuple[ModuleType, int]]:
    """The services node's apt repositories over a folder, with their switch in the same folder."""
    module = ModuleType("services")
    exec(compile(equipment("services.py"), "services.py", "exec"), module.__dict__)
    module.__dict__["APT_GONE"] = tmp_path / "gone"
    module.__dict__["APT"] = tmp_path
    for repository in ("apt.lab.example", "nvidia.lab.example"):
        (tmp_path / repository).mkdir()
        (tmp_path / repository / "Release").write_text(repository)
    (tmp_path / "nvidia.lab.example" / "driver.deb").write_text("content")
    server = ThreadingHTTPServer(("127.0.0.1", 0), module.AptHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield module, server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def fetch(port: int, name: str, host: str = "nvidia.lab.example") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", f"/{name}", headers={"Host": host})
    return connection.getresponse().status


def test_a_repository_has_what_is_its_own(repository: tuple[ModuleType, int]) -> None:
    _, port = repository
    assert [fetch(port, "driver.deb", host) for host in ("nvidia.lab.example", "apt.lab.example")] == [200, 404]
    assert fetch(port, "Release", "apt.lab.example:80") == 200
    assert fetch(port, "Release", "elsewhere.example") == 404


def test_a_repository_vanishes_half_way(repository: tuple[ModuleType, int], tmp_path: Path) -> None:
    _, port = repository
    assert fetch(port, "driver.deb") == 200
    (tmp_path / "gone").write_text("driver")
    assert fetch(port, "Release") == 200
    for name in ("driver.deb", "Release"):
        with pytest.raises(http.client.RemoteDisconnected):
            fetch(port, name)
    (tmp_path / "gone").unlink()
    assert fetch(port, "driver.deb") == 200
