# SPDX-License-Identifier: Apache-2.0
"""The link leads to an environment that is exactly its lock, and the former one is there to go back to."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ssh://spark0"]
STORE = "/opt/venvs/.firstlight"


def test_the_engine_of_the_lock_runs_from_the_link(host: Host) -> None:
    assert host.file("/opt/venvs/vllm").is_symlink
    assert host.check_output("/opt/venvs/vllm/bin/vllm --version") == "0.32.0"


def test_nothing_is_installed_but_the_lock(host: Host) -> None:
    ask = "from importlib.metadata import distributions as all; print(*sorted(one.metadata['Name'] for one in all()))"
    assert host.check_output("/opt/venvs/vllm/bin/python -c %s", ask) == "firstlight-lab-words vllm"


def test_the_former_release_is_kept_and_nothing_is_left_over(host: Host) -> None:
    former = host.file(f"{STORE}/vllm.previous").linked_to
    assert host.check_output("%s/bin/vllm --version", former) == "0.31.0"
    entries = set(host.file(STORE).listdir())
    assert not {entry for entry in entries if entry.endswith((".wheels", ".tmp", ".new"))}


def test_everybody_may_read_it_and_only_root_may_write(host: Host) -> None:
    wrong = r"\( -not -user root -o -perm /022 -o -not -perm -044 \)"
    found = host.check_output(f"find /opt/venvs/ -not -type l {wrong}")
    assert found == ""


def test_the_user_of_the_server_cannot_log_in(host: Host) -> None:
    assert host.user("firstlight").shell == "/usr/sbin/nologin"
