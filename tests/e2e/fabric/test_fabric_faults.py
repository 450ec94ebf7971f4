# SPDX-License-Identifier: Apache-2.0
"""Faults of a fabric, each named by the run that meets it. Further ones are in tests/e2e/racks/test_new_rack.py.

The tests share four nodes that have a fabric and nothing else. Each makes sure that the fabric is tested before it
breaks anything, and repairs what it broke.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fabric.fabric_rack import NETPLAN, OTHER_CAGE, RAIL, RECORD, TWIN, FabricRack
from tests.e2e.own_lab import OwnLab
from tests.e2e.support import CHECKOUT

pytestmark = (
    pytest.mark.extended
)  # test_new_rack.py has faults of each kind: of a switch, of a host, of a network change

HOSTS = ("bare0", "bare1", "bare2", "bare3")
INVENTORY = CHECKOUT / "tests/e2e/fabric/faults/inventory"


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FabricRack]:
    own = OwnLab("fabric", tmp_path_factory.mktemp("fabric"))
    with own.running("--nodes", "0", "--bare", str(len(HOSTS))):
        login = ("ssh", "-F", str(own.lab.directory / "ssh_config"))
        numbers = {host: 10 + index for index, host in enumerate(HOSTS)}
        made = FabricRack(own, INVENTORY, {host: host for host in HOSTS}, numbers, login)
        made.fix()
        yield made


def test_connectivity_test_fails_on_a_switch_without_jumbo_frames(rack: FabricRack) -> None:
    with rack.fault(repair=lambda: rack.switch(mtu=9000)):
        for host in HOSTS:
            rack.on(host, f"rm {RECORD}")
        rack.switch(mtu=1500)
        run = rack.fabric()
        assert run.status == 2
        run.line("jumbo", "9216")
        assert rack.reports() == dict.fromkeys(HOSTS, "")
    rack.fix()


def test_paths_are_tested_with_fewer_forks_than_hosts(rack: FabricRack) -> None:
    """Hosts wait for each other while throughput is measured, and so must not wait for a fork."""
    rack.require_tested()
    for host in HOSTS:
        rack.on(host, f"rm {RECORD}")
    run = rack.fabric("--forks", "2")
    assert run.status == 0, run.output[-6000:]
    assert all(rack.reports().values())
    left = "find /root/.ansible_async -type f 2> /dev/null || true"
    assert {host: rack.on(host, left) for host in HOSTS} == dict.fromkeys(HOSTS, "")


def test_verify_names_a_rail_that_is_down(rack: FabricRack) -> None:
    with rack.fault(repair=lambda: rack.switch("bare1", TWIN, down=False)):
        rack.switch("bare1", TWIN, down=True)
        verified = rack.verify()
    assert verified.run.status == 2
    verified.run.line("bare1", TWIN, "carrier")
    for host, failed in verified.failed.items():
        about = TWIN if host == "bare1" else f"{TWIN}.bare1"
        assert [check for check in failed if about not in check] == [], host


def test_verify_names_a_wrong_mask_and_a_wrong_mtu_and_the_next_run_corrects_them(rack: FabricRack) -> None:
    address = rack.address("bare2", RAIL)
    with rack.fault(repair=rack.require_tested):
        rack.on("bare2", f"ip addr del {address}/24 dev {RAIL}; ip addr add {address}/30 dev {RAIL}")
        rack.on("bare1", f"ip link set {TWIN} mtu 1500")
        verified = rack.verify()
        assert verified.run.status == 2
        verified.run.line("bare2", RAIL, f"{address}/30", f"{address}/24")
        verified.run.line("bare1", TWIN, "MTU", "1500", "9000")
        rack.fix()


def test_netplan_file_written_by_hand_is_named_and_left_alone(rack: FabricRack) -> None:
    path = Path("/etc/netplan/60-by-hand.yaml")
    text = f"network:\\n  ethernets:\\n    {RAIL}:\\n      addresses: [10.77.0.1/24]\\n"
    before = rack.on("bare0", f"cat {NETPLAN}")

    def repair() -> None:
        rack.on("bare0", f"rm -f {path}")
        rack.require_tested()

    with rack.fault(repair):
        # Netplan is only applied, and so the file only refused, where a port differs from the plan.
        rack.on("bare0", f"printf '{text}' > {path}; chmod 600 {path}; ip link set {RAIL} mtu 1500")
        run = rack.fabric()
        assert run.status == 2
        run.line(str(path), RAIL, "10.77.0.1/24", "nothing was changed")
        assert rack.on("bare0", f"cat {NETPLAN}") == before
        assert "10.77.0.1" in rack.on("bare0", f"cat {path}")


def test_cable_in_the_other_cage_is_named(rack: FabricRack) -> None:
    with rack.fault(repair=lambda: rack.switch("bare2", cage=1)):
        # As DGX OS has its ports: up, whether or not a cable is plugged in.
        rack.on("bare2", f"ip link set {OTHER_CAGE} up")
        rack.switch("bare2", cage=0)
        run = rack.fabric()
    assert run.status == 2
    run.line("bare2", RAIL, f"{OTHER_CAGE} (cage 0) has one", "move the cable to the other cage")
