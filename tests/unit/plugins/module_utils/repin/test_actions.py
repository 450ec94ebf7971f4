# SPDX-License-Identifier: Apache-2.0
"""Each action of a move: what it refuses, what it leaves behind, and that doing it twice is doing it once."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    BALANCER_UNIT,
    RAY_UNIT,
    SUPERVISOR_UNIT,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt import AptError
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_local import LocalApt
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.deb_store import StoreError
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt import Fetch
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.files import FilesError, record
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.journal import JournalError

UNIT = "firstlight-server.service"


def states(result: dict[str, Any]) -> list[str]:
    return [entry["state"] for entry in result["journal"]["entries"]]


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_move_there_and_back_step_by_step(bench: Any) -> None:
    assert states(bench.begin()) == ["planned"]
    fetched = bench.do("fetch")
    assert len(fetched["fetched"]) == 6
    assert fetched["journal"]["way_back"] is True
    assert fetched["journal"]["move"]["remove"] == ["nvidia-firmware-580.1"]
    assert fetched["journal"]["move_back"]["remove"] == ["nvidia-firmware-580.2"]
    drained = bench.do("drain", units=[UNIT])
    assert (drained["services"], drained["out_of_service"]) == ({UNIT: {"active": True, "enabled": True}}, False)
    assert bench.host.units[UNIT] == [False, True]
    bench.do("stage")
    installed = bench.do("install", direction="forward")
    assert bench.on_new
    assert (installed["repaired"], len(installed["steps"])) == (False, 4)
    assert bench.do("request_reboot", direction="forward")["changed"]
    assert bench.host.rebooting
    with pytest.raises(JournalError, match="has not booted since"):
        bench.do("note", state="booted", direction="forward")
    bench.host.power_up()
    bench.do("note", state="booted", direction="forward")
    bench.do("note", state="verified", direction="forward")
    bench.do("note", state="failed", direction="forward", detail={"at": "verified", "reason": "spark1 failed"})
    bench.do("install", direction="back")
    assert bench.on_old
    bench.do("request_reboot", direction="back")
    bench.host.power_up()
    bench.do("note", state="booted", direction="back")
    bench.do("note", state="rolled-back", direction="back")
    assert bench.do("uncordon")["services"] == [UNIT]
    closed = bench.do("close")
    assert json.loads(Path(closed["closed"]).read_text())["id"] == "move-1"
    assert states(closed)[-2:] == ["rolled-back", "uncordoned"]
    assert len(bench.do("read")["reboots"]) == 2


def test_no_reboot_into_a_kernel_without_the_module(bench: Any) -> None:
    bench.begin()
    bench.do("fetch")
    bench.do("drain", units=[UNIT])
    bench.do("stage")
    bench.do("install", direction="forward")
    (bench.root / "boot").mkdir()
    (bench.root / "boot" / "vmlinuz-6.8.0-61-generic").write_text("")
    told = (
        r"not rebooted: the next boot starts the kernel 6\.8\.0-61-generic, whose module nvidia is missing, .* 580\.2"
    )
    for check_mode in (True, False):
        with pytest.raises(JournalError, match=told):
            bench.do("request_reboot", direction="forward", check_mode=check_mode)
    assert not bench.host.rebooting
    assert bench.do("read")["state"] == "installed"
    bench.host.modules["6.8.0-61-generic"] = "580.2"
    assert bench.do("request_reboot", direction="forward")["changed"]


def test_every_action_twice_is_once(bench: Any) -> None:
    for action, arguments in (
        ("fetch", {}),
        ("drain", {"units": [UNIT]}),
        ("stage", {}),
        ("install", {"direction": "forward"}),
    ):
        if action == "fetch":
            bench.begin()
            assert not bench.begin(id="another")["changed"]
        assert bench.do(action, **arguments)["changed"]
        before = states(bench.do("read"))
        assert not bench.do(action, **arguments)["changed"]
        assert states(bench.do("read")) == before
    assert "apt-get install" in bench.host.did


def test_check_mode_changes_nothing(bench: Any) -> None:
    before, packages = tree(bench.root), dict(bench.host.packages)
    to = {"packages": {"nvidia-utils-580": "580.2-1"}, "holds": [], "files": {}}
    arguments = {"id": "a", "stack": "new", "to": to, "from_packages": []}
    assert bench.do("begin", check_mode=True, **arguments)["state"] == "planned"
    told = bench.do("fetch", check_mode=True, **arguments)
    assert [step["name"] for step in told["steps"]] == ["nvidia-utils-580"]
    assert told["bytes_needed"] > 0
    assert tree(bench.root) == before
    bench.prepare()
    bench.do("stage")
    before = tree(bench.root)
    assert bench.do("install", check_mode=True, direction="forward")["changed"]
    assert (tree(bench.root), bench.host.packages) == (before, packages)


def test_an_open_move_to_another_set_is_in_the_way(bench: Any) -> None:
    bench.begin()
    with pytest.raises(JournalError, match=r"move move-1 to new is open at planned.*to go back, to old"):
        bench.begin(to={"packages": {"nvidia-utils-580": "9"}}, stack="third")
    # Two stacks may differ in what serves alone.
    with pytest.raises(JournalError, match="A move to third can begin only after that"):
        bench.begin(stack="third")


def test_a_sick_host_is_left_alone(bench: Any) -> None:
    bench.host.packages["libc6"] = ("2.39", "half-configured", False)
    with pytest.raises(AptError, match=r"unfinished before the move began: libc6\. Nothing was changed"):
        bench.begin()
    assert bench.do("read")["dpkg_broken"] == ["libc6"]


def test_without_the_old_packages_there_is_no_move(bench: Any) -> None:
    bench.host.offered -= {("nvidia-utils-580", "580.1-1")}
    bench.begin()
    with pytest.raises(StoreError, match=r"no rollback: nvidia-utils-580 580\.1-1.*Nothing was changed"):
        bench.do("fetch")
    fetched = bench.do("fetch", without_rollback=True)
    assert fetched["journal"]["way_back"] is False
    bench.do("drain", units=[UNIT])
    outcome = bench.move(direction="back", reason="x")
    # Nothing was changed yet, so nothing is needed to go back.
    assert (outcome.outcome, bench.on_old) == ("rolled-back", True)


def test_no_way_back_after_the_change_is_told(bench: Any) -> None:
    bench.host.offered -= {("nvidia-utils-580", "580.1-1")}
    bench.host.broken_gates.add("580.2")
    bench.begin()
    bench.do("fetch", without_rollback=True)
    bench.do("drain", units=[UNIT])
    outcome = bench.move(verify={"gates": {"sysctl": {"gate": "good"}}})
    assert outcome.outcome == "failed"
    assert "there is no rollback" in outcome.problem
    assert "stays drained" in outcome.problem


KEPT = "nvidia-utils-580_580.1-1_all.deb"


def by_hand(bench: Any, content: str = "nvidia-utils-580 580.1-1\n") -> Path:
    store: Path = bench.root / "debs"
    store.mkdir()
    (store / KEPT).write_text(content)
    return store


def test_old_packages_may_be_put_there_by_hand_with_their_digest(bench: Any) -> None:
    bench.host.offered -= {("nvidia-utils-580", "580.1-1")}
    store = by_hand(bench)
    bench.begin()
    with pytest.raises(StoreError, match=r"no rollback: nvidia-utils-580.*SHA-256 of each.*index\.json"):
        bench.do("fetch")
    assert (store / KEPT).exists()
    (store / "index.json").write_text(json.dumps({KEPT: hashlib.sha256((store / KEPT).read_bytes()).hexdigest()}))
    assert KEPT in bench.do("fetch")["kept"]


def test_what_a_bring_up_kept_is_a_way_back(bench: Any) -> None:
    bench.host.offered -= {("nvidia-utils-580", "580.1-1")}
    content = "nvidia-utils-580 580.1-1\n"
    there = bench.root / KEPT
    there.write_text(content)
    digest = hashlib.sha256(content.encode()).hexdigest()
    for checksum in ("SHA256:bad", f"SHA256:{digest}", f"SHA256:{digest}"):
        fetched = Fetch(f"file:{there}", KEPT, len(content), checksum)
        bench.machine().apt.keep([fetched], str(bench.root / "debs"))
        assert (bench.root / "debs" / "index.json").exists() == (checksum != "SHA256:bad")
    bench.begin()
    assert KEPT in bench.do("fetch")["kept"]


def test_a_package_without_a_digest_has_to_be_what_the_signed_list_says(bench: Any) -> None:
    store = by_hand(bench)
    bench.begin()
    assert bench.do("fetch")["kept"] == [KEPT]
    assert KEPT in json.loads((store / "index.json").read_text())


def test_a_package_that_only_looks_like_it_is_fetched_again(bench: Any) -> None:
    store = by_hand(bench, "nvidia-utils-580 580.1-1\nand more\n")
    bench.begin()
    assert KEPT in bench.do("fetch")["fetched"]
    assert (store / KEPT).read_text() == "nvidia-utils-580 580.1-1\n"


@pytest.mark.parametrize("place", ["debs", "."])
def test_a_store_that_others_can_write_to_is_refused(bench: Any, place: str) -> None:
    by_hand(bench)
    bench.begin()
    (bench.root / place).chmod(0o777)
    with pytest.raises(
        StoreError, match=r"has mode 0777, expected it owned by root.*run `chown root:root .* and run again"
    ):
        bench.do("fetch")


def test_apts_own_cache_is_used(bench: Any) -> None:
    bench.host.offered -= {("nvidia-utils-580", "580.1-1")}
    (bench.root / "archives" / "nvidia-utils-580_580.1-1_all.deb").write_text("nvidia-utils-580 580.1-1\n")
    bench.begin()
    assert bench.do("fetch")["journal"]["way_back"] is True


def test_a_full_disk_is_told_in_bytes_and_leaves_nothing(bench: Any) -> None:
    bench.begin()
    bench.host.free = 10
    with pytest.raises(StoreError, match=r"needs \d+ bytes .*debs, where 10 bytes .*Nothing was changed"):
        bench.do("fetch")
    assert not list((bench.root / "debs").glob("*"))


@pytest.mark.hostile
def test_a_boot_partition_without_room_for_an_initial_file_system_stops_before_anything_is_stopped(bench: Any) -> None:
    (bench.root / "boot").mkdir()
    (bench.root / "boot" / "initrd.img-6.8.0-1").write_bytes(b"x" * 200_000)
    bench.begin()
    bench.host.free = 199_999
    with pytest.raises(StoreError, match=r"needs 200000 bytes .*/boot, where 199999 bytes .*Nothing was changed"):
        bench.do("fetch")
    bench.host.free += 1
    assert bench.do("fetch")["changed"]


@pytest.mark.hostile
def test_an_initial_file_system_that_is_not_made_is_a_failure_until_it_is(bench: Any) -> None:
    bench.file = bench.root / "etc" / "modprobe.d" / "own.conf"
    bench.file.parent.mkdir()
    bench.file.write_text("old\n")
    bench.host.missing.clear()
    bench.prepare()
    bench.host.failing.add("update-initramfs")
    outcome = bench.move()
    # The rollback has to make it anew as well, and says what is in its way.
    assert outcome.outcome == "failed"
    assert "update-initramfs returned 100: E: it failed" in outcome.problem
    assert "/boot has 1000000000000 bytes free. Make room there" in outcome.problem
    bench.host.failing.clear()
    assert bench.move().outcome == "rolled-back"
    assert bench.on_old
    assert bench.host.did.count("update-initramfs -u") == 3


def test_a_source_that_vanishes_half_way_leaves_nothing(bench: Any) -> None:
    """So does a disk that fills up: apt fails in the middle, with half a file written."""
    bench.begin()
    bench.host.failing.add("nvidia-utils-580")
    with pytest.raises(
        StoreError, match=r"nvidia-utils-580 580.* could not be fetched: it failed.*Nothing was changed"
    ):
        bench.do("fetch")
    kept = sorted(path.name for path in (bench.root / "debs").rglob("*") if path.is_file())
    assert len([name for name in kept if name.endswith(".deb")]) == 4
    assert not [name for name in kept if not name.endswith((".deb", ".json"))]
    assert bench.do("read")["journal"]["move"] is None
    bench.host.failing.clear()
    assert len(bench.do("fetch")["fetched"]) == 2
    bench.host.failing.add("offline")
    assert not bench.do("fetch")["changed"]


def test_a_kept_package_that_changed_stops_the_move_before_it_begins(bench: Any) -> None:
    bench.prepare()
    (bench.root / "debs" / "nvidia-utils-580_580.2-1_all.deb").write_text("nvidia-utils-580 580.2-1\nrot\n")
    outcome = bench.move()
    assert (outcome.outcome, bench.on_old) == ("rolled-back", True)
    assert "SHA-256" in outcome.problem
    assert outcome.result()["unchanged_host"]


def test_secrets_stay_out_of_the_journal(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match="may hold a secret"):
        record(["/etc/firstlight/ray.token"])
    closed = tmp_path / "closed"
    closed.write_text("x")
    closed.chmod(0o600)
    found, private = record([str(closed)])
    assert "x" not in json.dumps(found[str(closed)]).replace("sha256", "")
    assert set(found[str(closed)] or {}) == {"mode", "uid", "gid", "sha256"}
    assert base64.b64decode(private[str(closed)]) == b"x"


def test_a_file_that_is_not_for_everybody_comes_back_and_is_told_nowhere(bench: Any) -> None:
    daemon = bench.root / "etc" / "extra-daemon.conf"
    daemon.write_text('{"proxy": "user:hunter2"}')
    daemon.chmod(0o640)
    told = [bench.begin(), bench.do("fetch"), bench.do("drain", units=[]), bench.do("stage")]
    told.append(bench.do("install", direction="forward"))
    kept = bench.root / "repin" / "private-move-1.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    daemon.write_text("the new stack's")
    daemon.chmod(0o644)
    outcome = bench.move(direction="back")
    assert (outcome.outcome, daemon.read_text()) == ("rolled-back", '{"proxy": "user:hunter2"}')
    assert daemon.stat().st_mode & 0o777 == 0o640
    told += [outcome.result(), bench.do("read"), bench.do("uncordon"), bench.do("close")]
    secret = base64.b64encode(b'{"proxy": "user:hunter2"}').decode()
    assert "hunter2" not in json.dumps(told)
    assert secret not in json.dumps(told)
    assert not kept.exists()
    assert "hunter2" not in "".join(tree(bench.root / "repin").values())


def test_a_private_content_that_is_gone_is_told(bench: Any) -> None:
    daemon = bench.root / "etc" / "extra-daemon.conf"
    daemon.write_text("a")
    daemon.chmod(0o600)
    bench.prepare()
    bench.do("stage")
    (bench.root / "repin" / "private-move-1.json").unlink()
    daemon.write_text("b")
    outcome = bench.move(direction="back")
    assert outcome.outcome == "failed"
    assert "was kept beside the journal, readable only by root, and is gone" in outcome.problem


def test_files_come_back_as_they_were(bench: Any) -> None:
    etc = bench.root / "etc"
    (etc / "extra-a.conf").write_bytes(b"\xff\x00binary")
    (etc / "extra-a.conf").chmod(0o755)
    dropped = etc / "dropped.list"
    dropped.write_text("old source\n")
    bench.begin(from_files=[str(dropped)])
    bench.do("fetch")
    bench.do("drain", units=[])
    bench.do("stage")
    bench.do("install", direction="forward")
    assert not dropped.exists()
    (etc / "extra-a.conf").write_text("the new stack's")
    (etc / "extra-b.conf").write_text("the new stack's too")
    assert bench.move(direction="back").outcome == "rolled-back"
    assert (etc / "extra-a.conf").read_bytes() == b"\xff\x00binary"
    assert (etc / "extra-a.conf").stat().st_mode & 0o777 == 0o755
    assert not (etc / "extra-b.conf").exists()
    assert dropped.read_text() == "old source\n"


@pytest.mark.parametrize("before", ["marker", "idle"])
def test_a_host_that_was_out_of_service_stays_so(bench: Any, before: str) -> None:
    if before == "marker":
        (bench.root / "drained").write_text("taken out by hand")
    bench.host.units[UNIT] = [False, False]
    bench.prepare()
    assert bench.move().outcome == "verified"
    given = bench.do("uncordon")
    assert (given["services"], given["out_of_service"]) == ([], True)
    assert (bench.root / "drained").exists() == (before == "marker")
    if before == "marker":
        assert (bench.root / "drained").read_text() == "taken out by hand"


def test_the_supervisor_is_stopped_first_and_is_what_starts_again(bench: Any) -> None:
    """Whatever serves is found by itself; the units a supervisor starts are left to it."""
    bench.host.units = {
        name: [True, name == SUPERVISOR_UNIT] for name in (UNIT, RAY_UNIT, BALANCER_UNIT, SUPERVISOR_UNIT)
    }
    bench.begin()
    bench.do("fetch")
    bench.host.did.clear()
    drained = bench.do("drain")
    assert list(drained["services"]) == [SUPERVISOR_UNIT, BALANCER_UNIT, UNIT, RAY_UNIT]
    assert not any(active for active, _ in bench.host.units.values())
    assert bench.move(direction="back", reason="given up").outcome == "rolled-back"
    assert bench.do("uncordon")["services"] == [SUPERVISOR_UNIT, BALANCER_UNIT]


def test_a_supervisor_that_gave_up_is_started_again(bench: Any) -> None:
    bench.host.units = {UNIT: [False, False], SUPERVISOR_UNIT: [False, True]}
    bench.begin()
    bench.do("fetch")
    assert bench.do("drain")["out_of_service"] is False
    assert bench.move(direction="back", reason="given up").outcome == "rolled-back"
    assert bench.do("uncordon")["services"] == [SUPERVISOR_UNIT]


def test_a_unit_that_does_not_stop_stops_the_drain(bench: Any) -> None:
    bench.begin()
    bench.do("fetch")
    bench.host.failing.add("systemctl stop")
    with pytest.raises(JournalError, match="is still active"):
        bench.do("drain", units=[UNIT])
    assert bench.do("read")["state"] == "planned"
    outcome = bench.move(direction="back", reason="not drained")
    assert outcome.outcome == "rolled-back"
    assert bench.do("uncordon")["services"] == [UNIT]
    assert not (bench.root / "drained").exists()


def test_a_journal_closes_only_at_an_end(bench: Any) -> None:
    assert bench.do("close")["closed"] == ""
    bench.begin()
    assert states(bench.do("close", detail={"reason": "no room"})) == ["planned", "failed", "rolled-back"]
    bench.begin(id="move-2")
    bench.do("fetch")
    bench.do("drain", units=[UNIT])
    with pytest.raises(JournalError, match="closed only when its move has ended"):
        bench.do("close")


def test_a_move_that_is_over_is_closed_by_the_next(bench: Any) -> None:
    bench.prepare()
    bench.move(direction="back")
    bench.do("uncordon")
    # The same stack once more is another try, not the end of the last one.
    assert states(bench.begin(id="move-2")) == ["planned"]
    bench.do("fetch")
    bench.do("drain", units=[UNIT])
    assert bench.move().outcome == "verified"
    bench.do("uncordon")
    assert not bench.begin(id="move-3")["changed"]
    third = {"id": "move-3", "stack": "third", "to": {"packages": {"nvidia-utils-580": "580.1-1"}}}
    assert states(bench.begin(**third)) == ["planned"]
    assert sorted(path.name for path in (bench.root / "repin" / "history").iterdir()) == ["move-1.json", "move-2.json"]


def test_a_journal_that_is_none_is_told(bench: Any) -> None:
    (bench.root / "repin").mkdir()
    (bench.root / "repin" / "journal.json").write_text("{")
    with pytest.raises(JournalError, match="cannot be read as a journal"):
        bench.do("read")
    (bench.root / "repin" / "journal.json").write_text('{"format": 2}')
    with pytest.raises(JournalError, match="not a journal of format 1"):
        bench.do("read")


def test_what_is_done_is_not_noted(bench: Any) -> None:
    bench.begin()
    with pytest.raises(JournalError, match="cannot be noted, it is done"):
        bench.do("note", state="installed", direction="forward")
    with pytest.raises(JournalError, match=r"verified \(forward\) must not follow"):
        bench.do("note", state="verified", direction="forward")


def test_reboots_are_counted_over_moves(bench: Any) -> None:
    for name in ("one", "two"):
        bench.prepare(id=name, max_reboots=3)
        outcome = bench.move()
        if name == "one":
            assert outcome.outcome == "verified"
            assert bench.move(direction="back").outcome == "rolled-back"
            bench.do("uncordon")
            bench.do("close")
    # Two are used: the third is kept for a rollback, which then needs none.
    assert outcome.outcome == "rolled-back"
    assert "rebooted 2 times in the last 12 hours, and at most 3" in outcome.problem
    assert "kept for the rollback" in outcome.problem
    assert bench.on_old


def test_settle_starts_what_is_wanted_and_restarts_what_saw_no_change(bench: Any) -> None:
    restart = {"docker.service": [str(bench.file)], "ssh.service": ["/etc/elsewhere"]}
    bench.host.units |= {"docker.service": [True, True], "nvidia-persistenced.service": [False, False]}
    bench.host.units["ssh.service"] = [True, True]
    bench.prepare()
    bench.do("stage")
    bench.do("install", direction="forward")
    wanted = {"nvidia-persistenced.service": {"active": True}, "absent.service": {"active": True}}
    acted = bench.do("settle", units=wanted, restart=restart)["acted"]
    assert acted == ["docker.service", "nvidia-persistenced.service"]
    bench.host.power_up()
    assert bench.do("settle", units={}, restart=restart)["acted"] == []


def test_a_file_that_a_cut_off_run_wrote_is_known_to_have_changed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.host.units["docker.service"] = [True, True]
    bench.prepare()
    bench.do("stage")
    with monkeypatch.context() as patched:
        patched.setattr(LocalApt, "rehearse_local", refuse)
        with pytest.raises(AptError):
            bench.do("install", direction="forward")
    assert bench.file.read_text() == "new\n"
    assert bench.do("install", direction="forward")["files"] == [str(bench.file)]
    assert bench.do("settle", restart={"docker.service": [str(bench.file)]})["acted"] == ["docker.service"]


def refuse(*_: Any) -> None:
    raise AptError("no")


# -- packages of any version ------------------------------------------------------------------------------------------

FACTORY: dict[str, Any] = {"packages": {"libc6": None}, "holds": [], "files": {}, "pinned": []}


@pytest.mark.parametrize("to", [FACTORY, {**FACTORY, "packages": {}}])
def test_a_set_that_is_there_asks_no_source(bench: Any, to: dict[str, Any]) -> None:
    before = dict(bench.host.packages)
    bench.host.failing |= {"offline", "apt-get update"}
    begun = bench.begin(to=to, from_packages=[], stack="factory")
    assert begun["journal"]["from"]["packages"] == ({"libc6": "2.39"} if to["packages"] else {})
    fetched = bench.do("fetch")
    assert (fetched["steps"], fetched["journal"]["way_back"]) == ([], True)
    assert not bench.do("fetch")["changed"]
    bench.do("drain", units=[UNIT])
    outcome = bench.move(verify={})
    assert (outcome.outcome, bench.host.packages, bench.host.boots) == ("verified", before, 0)
    assert [one["state"] for one in outcome.result()["timeline"]][-2:] == ["installed", "verified"]
    assert not any(one.startswith("apt-get") for one in bench.host.did)
    assert bench.move(direction="back").outcome == "rolled-back"


def test_a_set_that_is_none_is_refused(bench: Any) -> None:
    wrong: list[dict[str, Any]] = [{}, {"holds": []}, {"packages": {}, "units": {}}]
    for to in wrong:
        with pytest.raises(JournalError, match="expected packages, holds and files"):
            bench.begin(to=to)


def test_a_package_of_any_version_comes_where_it_is_missing_and_goes_again(bench: Any) -> None:
    bench.host.offered.add(("linux-headers-6.8", "6.8-1"))
    bench.prepare(to={"packages": {"libc6": None, "linux-headers-6.8": None}, "holds": [], "files": {}})
    assert bench.do("read")["journal"]["move"]["install"] == {"linux-headers-6.8": "6.8-1"}
    assert bench.move().outcome == "verified"
    assert bench.host.packages["linux-headers-6.8"] == ("6.8-1", "installed", False)
    # Another upgrade of what may have any version is nobody's business.
    bench.host.packages["libc6"] = ("2.40", "installed", False)
    assert bench.move(direction="back").outcome == "rolled-back"
    assert "linux-headers-6.8" not in bench.host.packages
    assert bench.host.packages["libc6"][0] == "2.40"


# -- what comes along -------------------------------------------------------------------------------------------------


def test_a_package_of_the_release_that_nobody_named_is_refused(bench: Any) -> None:
    bench.host.along = {"dkms": "3.0"}
    bench.host.offered |= {("dkms", "3.0"), ("nvidia-stray-580", "580.2-7")}
    bench.begin()
    bench.do("fetch", check_mode=True)
    bench.host.along["nvidia-stray-580"] = "580.2-7"
    with pytest.raises(AptError, match=r"release 580\.2 would be installed.*: nvidia-stray-580 580\.2-7\. Nothing was"):
        bench.do("fetch")


# -- going on ---------------------------------------------------------------------------------------------------------


def test_a_move_goes_on_whatever_the_set_looks_like_by_now(bench: Any) -> None:
    bench.prepare()
    bench.do("stage")
    bench.do("install", direction="forward")
    begun = bench.begin(to={"packages": {"nvidia-utils-580": "580.2-1"}, "holds": ["more"]}, id="other")
    assert (begun["changed"], begun["target_differs"], begun["journal"]["id"]) == (False, True, "move-1")
    assert not bench.begin()["target_differs"]
