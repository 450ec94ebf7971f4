# SPDX-License-Identifier: Apache-2.0
"""Reading a host's managers, clock, governors and ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.module_utils.probes import observe

POLICY = "/sys/devices/system/cpu/cpufreq/policy0"
TIMESYNCD = (
    "Id=systemd-timesyncd.service\nLoadState=loaded\nUnitFileState=enabled\nActiveState=active\nSubState=running\n"
)


class Fake(Host):
    """A host of answers by the beginning of the command, and of files."""

    def __init__(self, answers: Mapping[str, tuple[int, str]], files: Mapping[str, str] | None = None) -> None:
        self.answers = answers
        self.files = dict(files or {})

    def run(
        self, argv: Sequence[str], timeout: float = 30.0, env: Mapping[str, str] | None = None, stdin: str | None = None
    ) -> Result:
        del timeout, env, stdin
        line = " ".join(argv)
        for start, (rc, out) in self.answers.items():
            if line.startswith(start):
                return Result(tuple(argv), rc, out)
        return Result(tuple(argv), 127, problem=f"{argv[0]} is not installed")

    def read_text(self, path: str) -> str | None:
        return self.files.get(path)

    def names(self, path: str) -> list[str]:
        return sorted({one[len(path) + 1 :].partition("/")[0] for one in self.files if one.startswith(f"{path}/")})

    def file_state(self, path: str) -> dict[str, Any]:
        return {"exists": path in self.files}

    def disk_free(self, path: str) -> int:
        del path
        return 1


def seen(host: Host, **desired: Any) -> dict[str, Any]:
    return observe(host, {"host_tuning": desired})


def test_managers() -> None:
    wanted = {"systemd/DefaultLimitMEMLOCK": "infinity", "logind/RemoveIPC": "no"}
    systemd = {"systemctl show --property=DefaultLimitMEMLOCK": (0, "DefaultLimitMEMLOCK=8388608\n")}
    found = seen(Fake({**systemd, "loginctl": (0, "RemoveIPC=yes\n")}), managers=wanted)
    assert found["managers"] == {"systemd/DefaultLimitMEMLOCK": "8388608", "logind/RemoveIPC": "yes"}
    without = {**systemd, "loginctl": (1, ""), "systemctl show --property=LoadState": (0, "LoadState=not-found\n")}
    assert seen(Fake(without), managers=wanted)["managers"]["logind/RemoveIPC"] is None
    broken = {**systemd, "loginctl": (1, "no bus\n"), "systemctl show --property=LoadState": (0, "LoadState=loaded\n")}
    assert seen(Fake(broken), managers=wanted)["errors"] == {"managers": "loginctl returned 1: no bus"}


def test_clock() -> None:
    answers = {"systemctl": (0, TIMESYNCD), "timedatectl": (0, "NTPSynchronized=yes\n")}
    found = seen(Fake(answers), clock={"synchronized": True})["clock"]
    assert found["service"] == "systemd-timesyncd.service"
    assert (found["enabled"], found["active"], found["synchronized"]) == (True, True, True)
    nobody = seen(Fake({"systemctl": (0, "Id=chrony.service\nLoadState=not-found\n")}), clock={"synchronized": True})
    assert nobody["clock"]["service"] is None
    chrony = TIMESYNCD.replace("systemd-timesyncd", "chrony")
    # chrony is asked itself; where it does not answer the kernel is.
    asked = Fake({"systemctl": (0, chrony), "chronyc": (0, ",".join(["0"] * 13) + ",Not synchronised\n")})
    assert seen(asked, clock={"synchronized": True})["clock"]["synchronized"] is False
    silent = Fake(
        {"systemctl": (0, chrony), "chronyc": (1, "506 Cannot talk to daemon\n"), "timedatectl": answers["timedatectl"]}
    )
    assert seen(silent, clock={"synchronized": True})["clock"]["synchronized"] is True


def test_files_of_the_kernel_and_of_logind() -> None:
    files = {
        f"{POLICY}/scaling_governor": "schedutil\n",
        f"{POLICY}/scaling_available_governors": "performance schedutil\n",
        "/sys/devices/system/cpu/cpufreq/boost": "1\n",
        "/proc/swaps": "Filename\n/swap.img file 1 0 -2\n",
        "/var/lib/systemd/linger/rank": "",
    }
    found = seen(Fake({}, files), governor="performance", swap="off", linger={"rank": True, "other": True})
    assert found["governor"] == {"policy0": {"governor": "schedutil", "available": ["performance", "schedutil"]}}
    assert found["swap"] == [{"device": "/swap.img", "priority": -2}]
    assert found["linger"] == {"rank": True, "other": False}
    assert seen(Fake({}), governor="performance")["governor"] == {}


def test_of_a_ledger_only_names_leave_the_host() -> None:
    text = '{"version": 1, "things": {"file /etc/x": {"kind": "file", "content": "c2VjcmV0"}}, "directories": []}'
    wanted: dict[str, Any] = {"/l": {"keeps": []}}
    found = seen(Fake({}, {"/l": text}), ledgers=wanted)["ledgers"]
    assert found == {"/l": {"exists": True, "keeps": ["file /etc/x"], "error": None}}
    assert seen(Fake({}), ledgers=wanted)["ledgers"]["/l"] == {"exists": False, "keeps": [], "error": None}
    for broken in (
        "{",
        "[]",
        '{"version": 2, "things": {}, "directories": []}',
        '{"version": 1, "things": [], "directories": []}',
    ):
        assert seen(Fake({}, {"/l": broken}), ledgers=wanted)["ledgers"]["/l"]["error"]
