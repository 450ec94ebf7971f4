# SPDX-License-Identifier: Apache-2.0
"""Eight delivered nodes, and the commands of docs/new-rack.md with the names of this lab in place of the page's."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from firstlight_lab.as_delivered import PASSWORD, USER
from tests.e2e.own_lab import Run
from tests.e2e.racks.delivered_lab import DeliveredLab
from tests.e2e.support import CHECKOUT

COUNT = 8
HOSTS = tuple(f"spark{number}" for number in range(1, COUNT + 1))
RECORD = CHECKOUT / "build" / "new-rack-record.json"
PAGE = (CHECKOUT / "docs" / "new-rack.md").read_text(encoding="utf-8")
COMMANDS = SHOW_KEYS, DISCOVER, BOOTSTRAP, INIT, PLAN, PREPARE = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)


@dataclass
class NewRack(DeliveredLab):
    """The nodes, the operator's files, and the record of every command of the page that was run."""

    record: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True)

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory"

    @property
    def known_hosts(self) -> Path:
        return self.inventory / "known_hosts"

    @property
    def nodes_file(self) -> Path:
        return self.directory / "nodes.yml"

    @property
    def key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def node_of(self) -> dict[str, str]:
        """The lab's name of each host: positions follow the addresses, and so do the lab's nodes."""
        return dict(zip(HOSTS, self.nodes, strict=True))

    def translated(self, command: str) -> str:
        """A command of the page with the names of this lab."""
        names = {
            "eth1": self.interface,
            "inventory/mine": str(self.inventory),
            "--fingerprints fingerprints": f"--fingerprints {self.directory / 'fingerprints'}",
            "nodes.yml": str(self.nodes_file),
            "pass show nodes": f"cat {self.lab.directory / PASSWORD}",
            f"--user {USER}": f"--user {USER} --key {self.key}.pub",
        }
        for of_the_page, of_this_lab in names.items():
            command = command.replace(of_the_page, of_this_lab)
        return command

    def shell(self, command: str, check: bool = True) -> Run:
        return self.command("bash", "-c", command, check=check, timeout=1200)

    def follow(self, command: str) -> Run:
        """Run a command of the page, which must exit 0, and record it."""
        run = self.shell(self.translated(command), check=False)
        last = run.output.rstrip().splitlines()[-10:]
        self.record.append({"command": command, "cpu_seconds": run.cpu, "status": run.status, "last": last})
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(self.record, indent=2) + "\n", encoding="utf-8")
        assert run.status == 0, f"{command}\n{run.output[-8000:]}"
        return run

    def write_fingerprints(self) -> None:
        """What the operator read at the consoles, one line per machine."""
        lines = [f"{self.addresses[node]} {fingerprint}\n" for node, fingerprint in self.fingerprints().items()]
        (self.directory / "fingerprints").write_text("".join(lines))

    def bootstrap(self, **changes: dict[str, Any]) -> tuple[int, dict[str, dict[str, Any]]]:
        """The page's bootstrap with a changed list of nodes: the exit status, and the outcome of each host."""
        listed = yaml.safe_load(self.nodes_file.read_text())["nodes"]
        changed = self.directory / "changed-nodes.yml"
        changed.write_text(yaml.safe_dump({"nodes": [{**node, **changes.get(node["name"], {})} for node in listed]}))
        command = self.translated(BOOTSTRAP).replace(str(self.nodes_file), str(changed))
        run = self.shell(f"{command} --json 2> /dev/null", check=False)
        assert run.output.startswith("{"), run.output
        return run.status, {node["name"]: node for node in json.loads(run.output)["nodes"]}
