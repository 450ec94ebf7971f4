# SPDX-License-Identifier: Apache-2.0
"""A transaction whose module could not be built: the host is as it was, or dpkg is at least in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt import AptError, Places
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_local import LocalApt
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_undo import (
    Before,
    put_back,
    remember_before,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.deb_store import Store
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt import Step

from tests.unit.plugins.module_utils.repin.conftest import SimulatedHost

DKMS, META, LIBRARY = "nvidia-dkms-580-open", "nvidia-driver-580-open", "libnvidia-compute-580"
FORMER = "libnvidia-compute-570"
OLD = {META: "580.1-1", DKMS: "580.1-1", FORMER: "570.1-1"}
NEW = {META: "580.2-1", DKMS: "580.2-1", LIBRARY: "580.2-1"}
STEPS = [
    Step(META, "580.1-1", "580.2-1"),
    Step(DKMS, "580.1-1", "580.2-1"),
    Step(FORMER, "570.1-1", None),
    Step(LIBRARY, None, "580.2-1"),
]


class Bench:
    """A host on the old set, and the transaction that will fail."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for place in ("etc/apt/sources.list.d", "etc/apt/preferences.d", "lists", "scratch", "archives", "log"):
            (root / place).mkdir(parents=True)
        self.host = SimulatedHost(root)
        self.host.packages = {name: (version, "installed", False) for name, version in OLD.items()}
        self.host.held = {DKMS}
        self.host.offered = set(OLD.items())
        self.log = root / "dkms/nvidia/580.2/build/make.log"
        self.log.parent.mkdir(parents=True)
        self.log.write_text("nv.c:1: error: no such thing\nmake: *** Error 2\n")
        places = {"dkms": str(root / "dkms"), "build_log": str(root / "log/kept.log")}
        self.apt = LocalApt(
            self.host,
            5,
            5,
            Places(str(root / "etc/apt"), str(root / "lists"), str(root / "scratch"), str(root / "archives"), **places),
        )
        self.store = Store(self.host, str(root / "debs"), str(root / "archives"))
        self.pins = root / "etc/apt/preferences.d/own"
        self.pins.write_text("old pins\n")
        self.source = root / "etc/apt/sources.list.d/new.sources"

    def remember(self, store: bool = True) -> Before:
        files = {str(self.pins): self.pins.read_text(), str(self.source): None}
        with self.apt.rehearsal({}) as stage:
            return remember_before(self.apt, self.store if store else None, stage, STEPS, files)

    def fail(self) -> AptError:
        """What a failed build leaves: everything unpacked, the module and what needs it not configured."""
        self.pins.write_text("new pins\n")
        self.source.write_text("new\n")
        self.host.packages = {name: (version, "installed", False) for name, version in NEW.items()}
        self.host.packages[DKMS] = ("580.2-1", "half-configured", False)
        self.host.packages[META] = ("580.2-1", "unpacked", False)
        self.host.held = set()
        return AptError(
            "Apt failed in the middle of the transaction. DKMS built no module (Bad return status for module build on "
            f"kernel: 7.0.0-28-generic, log {self.log})."
        )

    @property
    def there(self) -> dict[str, str]:
        return {name: version for name, (version, status, _) in self.host.packages.items() if status == "installed"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_former_set_is_back_with_its_pins_and_holds(bench: Bench) -> None:
    before = bench.remember()
    assert len(list((bench.root / "debs").glob("*.deb"))) == 3, "fetched while nothing had changed"
    told = str(put_back(bench.apt, before, bench.fail(), "580.2"))
    assert bench.there == OLD
    assert len(bench.host.packages) == len(OLD)
    assert bench.host.held == {DKMS}
    assert bench.pins.read_text() == "old pins\n"
    assert not bench.source.exists()
    assert (
        "The module of driver 580.2 could not be built for the kernel 7.0.0-28-generic: nv.c:1: error: no such" in told
    )
    assert "The former packages, pins and holds are restored, and dpkg is in order" in told
    assert (bench.root / "log/kept.log").read_text() == bench.log.read_text()


def test_a_host_without_a_driver_is_without_one_again(bench: Bench) -> None:
    bench.host.packages = {}
    bench.host.held = set()
    steps = [Step(name, None, version) for name, version in NEW.items()]
    with bench.apt.rehearsal({}) as stage:
        before = remember_before(bench.apt, None, stage, steps, {})
    told = str(put_back(bench.apt, before, bench.fail(), "580.2"))
    assert bench.host.packages == {}
    assert "dpkg is in order" in told


@pytest.mark.parametrize("store", [True, False])
def test_without_the_former_packages_dpkg_is_at_least_in_order(bench: Bench, store: bool) -> None:
    bench.host.offered = set()
    before = bench.remember(store)
    told = str(put_back(bench.apt, before, bench.fail(), "580.2"))
    assert bench.there == {LIBRARY: "580.2-1"}
    assert len(bench.host.packages) == 1, "nothing is half configured"
    assert "could not be restored" in told
    assert f"{META} 580.1-1 is not available" in told or f"{FORMER} 570.1-1 is not available" in told
    assert f"dpkg is in order, without {DKMS}, {META}" in told
    assert "Do not reboot" in told
    assert bench.pins.read_text() == "new pins\n"


def test_another_failure_is_left_to_the_next_run(bench: Bench) -> None:
    before = bench.remember()
    said = bench.fail()
    bench.host.packages[DKMS] = ("580.2-1", "installed", False)
    bench.host.did.clear()
    assert put_back(bench.apt, before, said, "580.2") is said
    assert bench.host.did == ["dpkg-query --show"]
