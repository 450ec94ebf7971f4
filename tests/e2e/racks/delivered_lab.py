# SPDX-License-Identifier: Apache-2.0
"""Nodes as they are delivered: one account with a password, and host keys that are not pinned anywhere."""

from __future__ import annotations

import json
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from firstlight_lab.as_delivered import PASSWORD, USER
from tests.e2e.own_lab import OwnLab

PASSWORD_LOGIN_IS_OFF = "sshd -T -C user=x,host=x,addr=127.0.0.1 | grep -c '^passwordauthentication no$'"


class DeliveredLab(OwnLab):
    """A lab that was started with --as-delivered."""

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.addresses)

    @property
    def password(self) -> str:
        """The password of the delivered account."""
        return (self.lab.directory / PASSWORD).read_text().strip()

    @property
    def interface(self) -> str:
        """This machine's port on the network of the nodes."""
        gateway = next(iter(self.addresses.values())).rpartition(".")[0] + ".1"
        for entry in json.loads(subprocess.check_output(["ip", "-j", "addr"], text=True)):
            if any(info.get("local") == gateway for info in entry["addr_info"]):
                return str(entry["ifname"])
        raise AssertionError(f"no interface has {gateway}")

    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each node's host key, read from the lab's own files."""
        keys = self.lab.directory / "keys"
        lines = {
            node: subprocess.check_output(["ssh-keygen", "-lf", str(keys / f"{node}_ed25519.pub")], text=True)
            for node in self.nodes
        }
        return {node: line.split()[1] for node, line in lines.items()}

    def set_password(self, node: str, password: str) -> None:
        self.inside(node, "chpasswd", stdin=f"{USER}:{password}\n")

    def firstlight(self, *words: str, password: bool = True) -> tuple[int, dict[str, Any]]:
        """A command with --json: its exit status and its document. Its other output goes to a file of the directory."""
        line = shlex.join(["firstlight", *words, "--json"])
        if password:
            line += f" --password-fd 3 3< <(cat {shlex.quote(str(self.lab.directory / PASSWORD))})"
        errors = shlex.quote(str(self.directory / "stderr.log"))
        run = self.command("bash", "-c", f"{line} 2>> {errors}", check=False, timeout=200)
        assert self.password not in run.output
        assert run.output.startswith("{"), run.output
        return run.status, json.loads(run.output)

    def on_every_node(self, script: str) -> dict[str, str]:
        """What a script printed on each node."""
        with ThreadPoolExecutor(4) as pool:
            return dict(
                zip(self.nodes, pool.map(lambda node: self.inside(node, script).strip(), self.nodes), strict=True)
            )
