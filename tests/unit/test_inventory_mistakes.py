# SPDX-License-Identifier: Apache-2.0
"""Mistakes of somebody who writes an inventory for the first time: each is one error, with its remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from firstlight.inventory import plan_inventory

pytestmark = pytest.mark.slow  # Ansible reads an inventory each time

ROOT = Path(__file__).parents[2]
HOSTS = """\
cluster:
  children:
    head:
      hosts:
        spark-1: {ansible_host: 10.20.0.11}
    workers:
      hosts:
        spark-2: {ansible_host: 10.20.0.12}
        spark-3: {ansible_host: 10.20.0.13}
        spark-4: {ansible_host: 10.20.0.14}
"""
VARIABLES = (ROOT / "inventory/spark4/group_vars/all.yml").read_text(encoding="utf-8")
SERVING = re.compile(r"(?m)^firstlight_serving:\n((?:  .*\n)+)")

Mistake = Callable[[Path], object]


def variables(text: str) -> Mistake:
    """More lines in group_vars/all.yml."""
    return lambda directory: (directory / "group_vars/all.yml").write_text(f"{VARIABLES}\n{text}\n")


def replaced(one: str, other: str) -> Mistake:
    """Another text in group_vars/all.yml."""
    assert one in VARIABLES
    return lambda directory: (directory / "group_vars/all.yml").write_text(VARIABLES.replace(one, other))


def hosts(one: str, other: str) -> Mistake:
    """Another text in hosts.yml."""
    assert one in HOSTS
    return lambda directory: (directory / "hosts.yml").write_text(HOSTS.replace(one, other))


def indentation_lost(directory: Path) -> None:
    def flat(found: re.Match[str]) -> str:
        return "firstlight_serving:\n" + re.sub(r"(?m)^  ", "", found[1])

    (directory / "group_vars/all.yml").write_text(SERVING.sub(flat, VARIABLES))


def content(name: str, data: bytes) -> Mistake:
    return lambda directory: (directory / name).write_bytes(data)


def renamed(one: str, other: str, more: str = "") -> Mistake:
    """Another name of a file or directory, and one more file."""

    def rename(directory: Path) -> None:
        (directory / one).rename(directory / other)
        if more:
            (directory / more).parent.mkdir()
            (directory / more).write_text("a: 1\n")

    return rename


def plan(directory: Path, mistake: Mistake) -> list[dict[str, str]]:
    (directory / "group_vars").mkdir()
    (directory / "hosts.yml").write_text(HOSTS)
    (directory / "group_vars/all.yml").write_text(VARIABLES)
    mistake(directory)
    return list(plan_inventory([str(directory)]).errors)


MISTAKES: dict[str, tuple[Mistake, str, str]] = {
    "a block without its indentation": (indentation_lost, "intent.indentation", "below firstlight_serving"),
    "a misspelt account": (variables("ansible_usr: op"), "intent.misspelt", "ansible_user"),
    "a misspelt address": (hosts("-2: {ansible_h", "-2: {ansibl_h"), "intent.misspelt", "ansible_host"),
    "no address": (hosts("10.20.0.12", "''"), "host.address", "reached by its name"),
    "a URL": (hosts("10.20.0.12", "http://10.20.0.12"), "host.address", "10.20.1.11"),
    "port 99999": (variables("ansible_port: 99999"), "host.port", "22"),
    "everybody is local": (variables("ansible_connection: local"), "host.connection", "SSH"),
    "maybe": (variables("nvidia_driver_reboot_ok: maybe"), "role.value", "true or false"),
    "worker": (hosts("workers:", "worker:"), "inventory.group", "workers"),
    "heads": (hosts("head:", "heads:"), "inventory.group", "head"),
    "clusters": (hosts("cluster:", "clusters:"), "inventory.group", "cluster"),
    "rack-b": (hosts("cluster:\n", "rack-b: {hosts: {spark-2: }}\ncluster:\n"), "inventory.group", "rack_b"),
    "a misspelt prefix": (variables("firstlght_model: x"), "intent.misspelt", "firstlight_model"),
    "a misspelt role": (variables("nvidia_drver_policy: x"), "intent.misspelt", "nvidia_driver_policy"),
    "a relative path": (variables("firstlight_model_root: models"), "intent.path", "/srv/models"),
    "Latin-1 in variables": (content("group_vars/all.yml", b"a: 1\nb: \xe9\n"), "inventory.unreadable", "UTF-8"),
    "Latin-1 in hosts": (content("hosts.yml", b"cluster: {hosts: {\xe9: }}\n"), "inventory.unreadable", "UTF-8"),
    "a key twice": (variables("firstlight_model: tiny"), "inventory.repeated", "remove one of the two"),
    "a host twice": (hosts("spark-3", "spark-2"), "inventory.repeated", "remove one of the two"),
    "a name with a space": (hosts("spark-2:", "'spark 2':"), "host.name", "another name"),
    "variables of a host below vars": (
        hosts("{ansible_host: 10.20.0.12}", "{vars: {a: 1}}"),
        "intent.indentation",
        "vars",
    ),
    "var of a group": (hosts("cluster:\n", "cluster:\n  var: {a: 1}\n"), "inventory.unreadable", "below vars"),
    "a list of hosts": (hosts("        spark-4: {", "        - {"), "inventory.unreadable", "ansible-inventory"),
    "variables of nobody": (content("group_vars/worker.yml", b"a: 1\n"), "inventory.variables", "workers.yml"),
    "variables as text": (renamed("group_vars/all.yml", "group_vars/all.txt"), "inventory.variables", "all.yml"),
    "variables of al": (renamed("group_vars/all.yml", "group_vars/al.yml"), "inventory.variables", "all.yml"),
    "a misspelt directory": (renamed("group_vars", "group_var"), "inventory.variables", "group_vars"),
    "variables of no host": (
        renamed("group_vars", "group_vars", "host_vars/sparc-2.yml"),
        "inventory.variables",
        "spark-2.yml",
    ),
    "perhaps all": (variables("firstlight_full: maybe"), "intent.type", "true or false"),
    "perhaps a benchmark": (variables("firstlight_bench_now: maybe"), "intent.type", "true or false"),
    "a misspelt workload": (variables("firstlight_bench: {gate: [chta]}"), "bench.workload", "chat"),
    "a misspelt key of it": (variables("firstlight_bench: {gates: [chat]}"), "intent.unknown-key", "gate"),
    "a misspelt limit": (variables("firstlight_quality: {limits: {blue: 0.5}}"), "intent.unknown-key", "bleu"),
    "soon": (variables("firstlight_answer_timeout: soon"), "intent.type", "300"),
    "a name for an address": (variables("firstlight_weights_endpoint: hub.example"), "intent.type", "https://"),
    "a misspelt connection": (variables("ansible_connection: shh"), "host.connection", "ssh"),
    "perhaps root": (variables("ansible_become: maybe"), "host.user", "true or false"),
    "rails in one subnet": (replaced("192.168.101.0", "192.168.100.0"), "fabric.overlap", "192.168.101.0/24"),
    "a rail over the hosts": (replaced("192.168.100.0/24", "10.20.0.0/24"), "fabric.network", "enp1s0f1np1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_error_with_its_remedy(tmp_path: Path, name: str) -> None:
    mistake, identifier, remedy = MISTAKES[name]
    (error,) = plan(tmp_path, mistake)
    assert error["id"] == identifier
    assert remedy in error["remedy"]


def test_a_file_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    (error,) = plan(tmp_path, content("group_vars/all.yml", b"a: 1\nb: \xe9\n"))
    assert error["found"] == f"{tmp_path}/group_vars/all.yml, line 2, is not UTF-8"


def test_an_owner_may_have_variables_and_groups(tmp_path: Path) -> None:
    def own(directory: Path) -> None:
        variables("my_site: x\nrack_contact: ops")(directory)
        hosts("cluster:\n", "storage: {hosts: {nas: }}\ncluster:\n")(directory)
        # Of a host that has gone, notes, and what an editor leaves.
        renamed("group_vars", "group_vars", "host_vars/spark-5.yml")(directory)
        for name in ("README.md", "all.yml~", ".all.yml.swp", "storage.yml"):
            (directory / "group_vars" / name).write_text("a: 1\n")

    assert plan(tmp_path, own) == []
