# SPDX-License-Identifier: Apache-2.0
"""apt_set: everything is rehearsed, and a refusal leaves the host as it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt import AptError, Places
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_local import LocalApt
from ansible_collections.firstlight.cluster.plugins.modules.apt_set import converge, of_state

from tests.unit.fake_host import Call, FakeHost, Reply

URL = "http://lab/pool"


class Machine(FakeHost):
    """A host with a few packages and a source that offers version 2 of everything."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.installed: dict[str, str] = {"old": "1", "libc": "1"}
        self.held: set[str] = set()
        self.simulation = "Inst driver (2 Lab [all])\nInst library (2 Lab [all])\n"
        self.failures: dict[str, Result] = {}
        self.did: list[str] = []
        self.seen_sources = ""
        self.uris = [f"{URL}/driver_2_all.deb", f"{URL}/library_2_all.deb"]
        self.upgrade = ""
        self.status = "Package: old\nProvides: kernel-driver\n"

    def answer(self, call: Call) -> Reply:
        words = [word for word in call.argv if "::" not in word and word not in ("-o", "--yes")]
        name = next((word for word in ("--simulate", "--download-only", "--print-uris") if word in words), words[1])
        if words[1] == "dist-upgrade":
            name = words[1]
        self.did.append(f"{words[0]} {name}")
        if name in self.failures:
            return self.failures[name]
        packages = [word for word in words[2:] if not word.startswith("-")]
        return self._answer(words[0], name, packages, call.argv)

    def _answer(self, program: str, name: str, packages: list[str], argv: Sequence[str]) -> str:
        if program == "dpkg-query" and "Status-Want" in argv[2]:
            known = [one for one in packages if one in self.installed]
            return "".join(f"{one}\t{'hold' if one in self.held else 'install'}\tinstalled\n" for one in known)
        if program == "dpkg-query" and name == "--status":
            return self.status
        if program == "dpkg-query":
            return "".join(f"{one}\tinstalled\t{self.installed[one]}\n" for one in packages if one in self.installed)
        if name == "update":
            options = dict(word.split("=", 1) for word in argv if word.startswith("Dir::"))
            self.seen_sources = "".join(
                path.read_text() for path in sorted(Path(options["Dir::Etc::sourceparts"]).iterdir())
            )
            (Path(options["Dir::State::lists"]) / "lab_Packages").write_text("index")
        if name == "--simulate":
            return self.simulation
        if name == "dist-upgrade":
            return self.upgrade
        if name == "--print-uris":
            return "".join(f"'{uri}' {uri.rpartition('/')[2]} 3 SHA256:aa\n" for uri in self.uris)
        if name == "show":
            return "Package: driver\nConflicts: kernel-driver\nSHA256: aa\n\nPackage: library\nSHA256: aa\n"
        if name == "madison":
            return "driver | 2 | http://lab x Packages\n"
        if name == "install":
            moved = dict(one.split("=", 1) for one in packages if "=" in one)
            self.installed.update(moved)
            for gone in (one.removesuffix("-") for one in packages if one.endswith("-")):
                del self.installed[gone]
            self.held -= set(moved)  # as the real one does
        if name == "hold":
            self.held.update(packages)
        if name == "unhold":
            self.held -= set(packages)
        return ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for place in ("etc/sources.list.d", "etc/preferences.d", "lists", "scratch", "archives"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "etc/sources.list.d/other.list").write_text("deb http://other x y\n")
    (tmp_path / "lists/other_Packages").write_text("other index")
    return Machine(tmp_path)


def test_what_is_not_given_is_that_of_the_desired_state() -> None:
    file = {"content": "x"}
    state = {"packages": {"a": "1"}, "holds": {"a": True}, "files": {"/etc/apt/x": file, "/etc/systemd/y": file}}
    given = {"packages": None, "holds": None, "files": None, "desired": state}
    assert {name: of_state(given)[name] for name in ("packages", "holds", "files")} == {
        "packages": {"a": "1"},
        "holds": ["a"],
        "files": {"/etc/apt/x": file},
    }
    alone = of_state({**given, "packages": {"b": None}, "desired": None})
    assert (alone["packages"], alone["holds"], alone["files"]) == ({"b": None}, [], {})


def parameters(machine: Machine, **changes: Any) -> dict[str, Any]:
    etc = machine.root / "etc"
    keyring = f"{etc}/keyrings/own.asc"
    return {
        "packages": {"driver": "2", "library": "2"},
        "install": True,
        "holds": ["driver", "library"],
        "files": {
            f"{etc}/sources.list.d/own.sources": {"content": f"URIs: http://lab\nSuites: x\nSigned-By: {keyring}\n"},
            keyring: {"content": "key\n"},
            f"{etc}/preferences.d/own": {"content": "pins\n"},
        },
        "remove": [],
        "release": None,
        "package_archive": None,
        "drivers": True,
        **changes,
    }


def apply(machine: Machine, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
    places = Places(**{name: str(machine.root / name) for name in ("etc", "lists", "scratch", "archives")})
    return converge(parameters(machine, **changes), check_mode, LocalApt(machine, 5, 5, places))


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_install_hold_and_leave_it_then(machine: Machine) -> None:
    result = apply(machine)
    assert result["changed"]
    assert [step["name"] for step in result["steps"]] == ["driver", "library"]
    assert (result["held"], len(result["written"])) == (["driver", "library"], 3)
    assert machine.installed == {"old": "1", "libc": "1", "driver": "2", "library": "2"}
    assert machine.held == {"driver", "library"}
    assert (machine.root / "lists/lab_Packages").read_text() == "index"
    assert "scratch" in machine.seen_sources
    assert "other" not in machine.seen_sources
    order = [word for word in machine.did if not word.startswith("dpkg")]
    assert order == [
        *("apt-get update", "apt-get --simulate", "apt-get --print-uris", "apt-cache show"),
        *("apt-get --download-only", "apt-get install", "apt-mark hold", "apt-get dist-upgrade"),
    ]
    machine.did.clear()
    again = apply(machine)
    assert (again["changed"], again["steps"], again["held"], again["written"], again["diff"]) == (False, [], [], [], [])
    assert set(machine.did) == {"dpkg-query --show"}
    assert list((machine.root / "scratch").iterdir()) == []


def test_a_driver_comes_along_only_where_it_may(machine: Machine) -> None:
    machine.simulation += "Inst libnvidia-compute-580 (580.95.05-1 Lab [amd64])\n"
    before = tree(machine.root / "etc")
    with pytest.raises(AptError, match=r"libnvidia-compute-580 580\.95\.05-1 would be installed"):
        apply(machine, drivers=False)
    assert tree(machine.root / "etc") == before
    assert apply(machine)["changed"]


def test_a_package_that_moves_under_its_hold_keeps_it(machine: Machine) -> None:
    machine.installed |= {"driver": "1", "library": "1"}
    machine.held = {"driver", "library"}
    result = apply(machine)
    assert (result["held"], machine.held) == ([], {"driver", "library"})


def test_check_mode_tells_the_same_and_changes_nothing(machine: Machine) -> None:
    before = tree(machine.root)
    told = apply(machine, check_mode=True)
    assert tree(machine.root) == before
    assert (machine.installed, machine.held) == ({"old": "1", "libc": "1"}, set())
    assert told == apply(machine)


@pytest.mark.parametrize(
    ("name", "said", "words"),
    [
        (
            "update",
            "E: The repository 'http://lab x InRelease' is not signed.\n",
            "http://lab x cannot be used: The repos",
        ),
        ("update", "E: Release file for http://lab is expired\n", "is expired. Nothing was changed"),
        ("--simulate", "E: Version '2' for 'driver' was not found\n", "Version '2' for 'driver' was not found"),
        ("--simulate", "E: Version '2' for 'driver' was not found\n", "library is not offered at all"),
        ("--download-only", "E: Failed to fetch http://lab/driver.deb  404\n", "cannot be fetched: Failed to fetch"),
    ],
)
def test_a_source_that_fails_changes_nothing(machine: Machine, name: str, said: str, words: str) -> None:
    machine.failures[name] = Result(("apt-get",), 100, "", said)
    before = tree(machine.root)
    with pytest.raises(AptError, match="Nothing was changed") as raised:
        apply(machine)
    assert words in str(raised.value)
    assert tree(machine.root) == before
    assert machine.held == set()


def test_a_transaction_that_changes_more_is_refused(machine: Machine) -> None:
    machine.simulation += "Inst libc [1] (2 Lab [all])\nRemv docker [1]\n"
    before = tree(machine.root)
    with pytest.raises(
        AptError, match=r"libc would change from 1 to 2.*docker 1 would be removed.*Nothing was changed"
    ):
        apply(machine)
    assert tree(machine.root) == before


def test_a_refusal_names_what_would_go_and_where_that_is_allowed(machine: Machine) -> None:
    machine.simulation += "Remv meta [1]\nRemv docker [1]\n"
    with pytest.raises(AptError, match=r"along with what the set replaces: my_variable: \[docker, meta\]$"):
        apply(machine, remove_variable="my_variable")
    with pytest.raises(AptError, match=r"remove by hand what has to go$"):
        apply(machine)


def test_what_a_metapackage_brought_is_kept_when_it_goes(machine: Machine) -> None:
    machine.installed |= {"cuda": "1", "toolkit": "1", "nvidia-driver-pinning-570": "1"}
    machine.status = "Package: cuda\nDepends: toolkit (>= 1), absent, driver\nRecommends: libc | other\n"
    machine.simulation += "Remv cuda [1]\nRemv nvidia-driver-pinning-570 [1]\n"
    leaving = ["cuda", "nvidia-driver-pinning-570"]
    assert apply(machine, check_mode=True, remove=leaving)["spared"] == ["libc", "toolkit"]
    assert not {"apt-mark manual", "dpkg --purge"} & set(machine.did)
    assert apply(machine, remove=leaving)["spared"] == ["libc", "toolkit"]
    assert ("apt-mark", "manual", "libc", "toolkit") in machine.ran
    assert ("dpkg", "--purge", "nvidia-driver-pinning-570") in machine.ran
    machine.failures["manual"] = Result(("apt-mark",), 1)
    machine.installed |= {"cuda": "1"}
    machine.simulation = "Remv cuda [1]\n"
    with pytest.raises(AptError, match="The set is installed, but these packages could not be marked"):
        apply(machine, remove=["cuda"])


def test_what_the_set_conflicts_with_may_go(machine: Machine) -> None:
    machine.simulation += "Remv old [1]\n"
    assert {"name": "old", "old": "1", "new": None} in apply(machine)["steps"]


def test_a_transaction_that_ends_half_way_says_so(machine: Machine) -> None:
    machine.failures["install"] = Result(("apt-get",), 100, "", "E: Sub-process dpkg returned an error code (1)\n")
    with pytest.raises(AptError, match=r"in the middle.*Sub-process dpkg.*Not as pinned now: driver, library"):
        apply(machine)


def test_without_install_there_are_only_files_and_holds(machine: Machine) -> None:
    pins = {f"{machine.root}/etc/preferences.d/own": {"content": "pins\n"}}
    result = apply(machine, install=False, holds=["old"], files=pins)
    assert (result["changed"], result["held"], machine.held) == (True, ["old"], {"old"})
    assert not any(word.startswith("apt-get") for word in machine.did)


def test_a_hold_that_does_not_hold_is_an_error(machine: Machine) -> None:
    with pytest.raises(AptError, match="could not be held: absent"):
        apply(machine, install=False, holds=["absent"], files={})


def test_the_diff_shows_what_was_and_what_is(machine: Machine) -> None:
    path = machine.root / "etc/preferences.d/own"
    path.write_text("former\n")
    machine.simulation = "Inst driver [1] (2 Lab [all])\n"
    diff = apply(machine, check_mode=True)["diff"]
    assert diff[0] == {"header": "packages", "before": "driver 1\n", "after": "driver 2\n"}
    assert diff[1] == {"header": "holds", "before": "", "after": "driver\nlibrary\n"}
    assert {"before_header": str(path), "after_header": str(path), "before": "former\n", "after": "pins\n"} in diff


PINS = "# head\n" + "".join(f"\nPackage: {name}\nPin: version 1\nPin-Priority: 1001\n" for name in ("driver", "gone"))


def test_what_leaves_the_set_goes_in_the_same_transaction_and_loses_its_hold(machine: Machine) -> None:
    machine.installed |= {"driver": "1", "library": "1", "gone": "1", "told": "1"}
    machine.held = {"driver", "gone"}
    (machine.root / "etc/preferences.d/own").write_text(PINS)
    machine.simulation = "Remv gone [1]\nRemv told [1]\nInst driver [1] (2 Lab [all])\n"
    told = apply(machine, check_mode=True, remove=["told", "absent", "library"])
    assert told["released"] == ["gone"]
    assert {"header": "holds", "before": "gone\n", "after": "library\n"} in told["diff"]
    assert "gone" in machine.installed
    assert apply(machine, remove=["told", "absent", "library"])["steps"] == told["steps"]
    assert machine.installed == {"old": "1", "libc": "1", "driver": "2", "library": "2"}
    assert not apply(machine, remove=["told"])["changed"]


def test_a_package_that_stays_held_stays(machine: Machine) -> None:
    machine.installed |= {"driver": "2", "library": "2", "gone": "1"}
    (machine.root / "etc/preferences.d/own").write_text(PINS)
    result = apply(machine, holds=["driver", "library", "gone"])
    assert (result["steps"], result["released"], machine.installed["gone"]) == ([], [], "1")


def test_without_install_what_leaves_the_set_only_loses_its_hold(machine: Machine) -> None:
    machine.installed |= {"driver": "2", "gone": "1"}
    machine.held = {"driver", "gone"}
    pins = machine.root / "etc/preferences.d/own"
    pins.write_text(PINS)
    files = {str(pins): {"content": "pins\n"}}
    result = apply(machine, packages={"driver": "2"}, holds=["driver"], install=False, files=files)
    assert (result["released"], machine.held, machine.installed["gone"]) == (["gone"], {"driver"}, "1")
    assert not any(word.startswith("apt-get") for word in machine.did)


def test_a_package_that_leaves_and_is_still_needed_is_refused(machine: Machine) -> None:
    machine.installed |= {"driver": "2", "library": "2", "gone": "1"}
    machine.simulation = "Remv driver [2]\nRemv gone [1]\n"
    with pytest.raises(AptError, match=r"driver would be removed, although it belongs to the set.*Nothing was changed"):
        apply(machine, remove=["gone"])


def test_a_package_of_another_source_is_not_taken(machine: Machine) -> None:
    machine.uris[1] = "file:/srv/other/library_2_all.deb"
    assert apply(machine, check_mode=True)["changed"], "the same file is on offer there"
    machine.uris.append("file:/srv/other/extra_5%3a2_all.deb")
    before = tree(machine.root)
    packages = {"driver": "2", "library": "2", "extra": "5:2"}
    with pytest.raises(AptError, match=r"another source: extra 5:2 from file:/srv/other/.*Nothing was changed"):
        apply(machine, packages=packages)
    assert tree(machine.root) == before


def test_a_package_of_the_release_that_nobody_named_is_refused(machine: Machine) -> None:
    machine.simulation += "Inst companion (1:2-7 Lab [all])\nInst dkms (3.0-1 Lab [all])\n"
    assert apply(machine, check_mode=True)["changed"]
    with pytest.raises(AptError, match=r"release 2 would be installed.*: companion 1:2-7\. Nothing was changed"):
        apply(machine, release="2")


def test_what_is_installed_is_kept(machine: Machine) -> None:
    (machine.root / "archives/driver_2_all.deb").write_text("deb")
    local = machine.root / "library_2_all.deb"
    local.write_text("lib")
    machine.uris = [f"{URL}/driver_2_all.deb", f"file:{local}", f"{URL}/absent_2_all.deb"]
    keep = machine.root / "kept"
    assert apply(machine, check_mode=True, package_archive=str(keep))["kept"] == []
    result = apply(machine, package_archive=str(keep))
    assert result["kept"] == [f"{keep}/driver_2_all.deb", f"{keep}/library_2_all.deb"]
    assert tree(keep) == {"driver_2_all.deb": "deb", "library_2_all.deb": "lib"}


def test_an_upgrade_that_would_still_move_the_set_is_an_error(machine: Machine) -> None:
    machine.upgrade = "Inst libc [1] (2 Lab [all])\nInst driver [2] (3 Lab [all])\n"
    with pytest.raises(AptError, match="`apt-get dist-upgrade` would change driver from 2 to 3, expected nothing"):
        apply(machine)


def test_a_package_of_any_version_may_be_upgraded(machine: Machine) -> None:
    machine.installed["headers"] = "1"
    machine.upgrade = "Inst headers [1] (2 Lab [all])\n"
    assert apply(machine, packages={"driver": "2", "library": "2", "headers": None})["changed"]
