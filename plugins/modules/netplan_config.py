#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module netplan_config: one netplan file, proven before it lands and undone when it does not work."""

from __future__ import annotations

DOCUMENTATION = """
module: netplan_config
short_description: Write a netplan file, apply it, and undo it when the ports do not come up
version_added: "0.1.0"
author: Firstlight contributors
description:
  - Tries the file together with all other netplan files of the host in a scratch directory first.
    What C(netplan generate) refuses there never reaches the host.
  - Writes the file atomically, runs C(netplan apply), and waits until every port has its MTU and address.
  - Puts the former file back and applies again when a port does not get there, or when an address or
    default route that the host had on other ports is gone. The undo runs on the host itself, so it also
    happens when the connection to the controller is what broke.
  - Applies only when the file or a port differs.
options:
  path:
    description: The netplan file, below C(/etc/netplan), ending in C(.yaml).
    type: path
    required: true
  content:
    description: Its text.
    type: str
    required: true
  ports:
    description: What the ports must be afterwards.
    type: list
    elements: dict
    required: true
    suboptions:
      port:
        description: Name of the network interface.
        type: str
        required: true
      address:
        description: Its IPv4 address with prefix length.
        type: str
        required: true
      mtu:
        description: Its MTU.
        type: int
        required: true
  timeout:
    description: Seconds the ports have to come up after C(netplan apply).
    type: int
    default: 20
attributes:
  check_mode:
    description: Tries the file in the scratch directory, but neither writes nor applies it.
    support: full
  diff_mode:
    description: Shows the file and the ports before and after.
    support: full
"""

EXAMPLES = """
- name: Configure one fabric port
  firstlight.cluster.netplan_config:
    path: /etc/netplan/40-firstlight-fabric.yaml
    content: |
      network:
        version: 2
        ethernets:
          enp1s0f1np1:
            mtu: 9000
            addresses: [192.168.100.10/24]
    ports:
      - port: enp1s0f1np1
        address: 192.168.100.10/24
        mtu: 9000
"""

RETURN = """
differences:
  description: One sentence for each thing that was not as it should be before.
  type: list
  elements: str
  returned: always
  sample: ["link enp1s0f1np1 has mtu 1500, expected mtu 9000"]
"""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.differences import differences
from ansible_collections.firstlight.cluster.plugins.module_utils.core.explain import explain
from ansible_collections.firstlight.cluster.plugins.module_utils.core.netplan import (
    lost_connectivity,
    overlaps,
    parse_default_routes,
    port_states,
    wanted_links,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.parsers.network import (
    parse_ip_addresses,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file

SOURCES = ("etc/netplan", "lib/netplan", "run/netplan")
"""Where netplan reads from, relative to a root directory."""

MODE = 0o600
APPLY_LIMIT = 120.0


class NetplanError(Exception):
    """A step that did not work, in words for the operator."""


class Netplan:
    """The host's netplan, its links and routes."""

    def __init__(self, module: AnsibleModule, host: Host, root: str = "/") -> None:
        """`root` is another directory only in tests."""
        self.module = module
        self.host = host
        self.root = root
        self.path: str = module.params["path"]
        self.content: str = module.params["content"]
        self.wanted = {"links": wanted_links(module.params["ports"])}

    def links(self) -> dict[str, dict[str, Any]]:
        """Every link of the host."""
        ran = self.host.run(["ip", "-j", "addr", "show"], timeout=10)
        if not ran.ok:
            raise NetplanError(f"The host's links cannot be read ({ran.summary}): install iproute2.")
        try:
            return parse_ip_addresses(ran.stdout)
        except ValueError as error:
            raise NetplanError(f"The host's links cannot be read ({error}): update iproute2.") from error

    def routes(self) -> set[str]:
        """The host's default routes."""
        ran = self.host.run(["ip", "-j", "route", "show", "default"], timeout=10)
        return parse_default_routes(ran.stdout) if ran.ok else set()

    def wrong_links(self, links: dict[str, dict[str, Any]]) -> list[str]:
        """What is not right about the ports, in sentences."""
        return explain(differences(self.wanted, {"links": port_states(self.wanted["links"], links)}))

    def wrong_file(self) -> list[str]:
        """What is not right about the file, in sentences."""
        try:
            state = self.host.file_state(self.path)
        except OSError as error:
            raise NetplanError(f"{self.path} cannot be read: {error}: run with become.") from error
        wanted = root_file(self.content, mode="0600")
        return explain(differences({"files": {self.path: wanted}}, {"files": {self.path: state}}))

    def validate(self) -> None:
        """Let netplan read all files together with ours in a scratch directory."""
        with tempfile.TemporaryDirectory(prefix="firstlight-netplan-") as scratch:
            for source in SOURCES:
                place = os.path.join(scratch, source)
                os.makedirs(place, mode=0o755)
                for name in self._names(os.path.join(self.root, source)):
                    shutil.copy(os.path.join(self.root, source, name), os.path.join(place, name))
            self._store(os.path.join(scratch, "etc/netplan", os.path.basename(self.path)))
            ran = self.host.run(["netplan", "generate", "--root-dir", scratch], timeout=60)
            if not ran.ok:
                said = (ran.problem or ran.stderr or ran.stdout).replace(scratch, "").strip()
                raise NetplanError(
                    f"netplan refuses the configuration, nothing was changed: {said[:800]} "
                    f"(tried {os.path.basename(self.path)} together with the host's other netplan files): "
                    "correct the fabric ports, or the file that netplan names."
                )

    @staticmethod
    def _names(directory: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(directory) if name.endswith(".yaml"))
        except OSError:
            return []

    def _store(self, path: str) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE), "w", encoding="utf-8") as stream:
            stream.write(self.content)

    def apply(self) -> None:
        """netplan apply."""
        ran = self.host.run(["netplan", "apply"], timeout=APPLY_LIMIT)
        if not ran.ok:
            said = (ran.problem or ran.stderr or ran.stdout).strip()
            raise NetplanError(f"netplan apply failed: {said[:800]}")

    def wait(self, links_before: dict[str, dict[str, Any]], routes_before: set[str]) -> None:
        """Until the ports are right and the host still has what it had elsewhere."""
        deadline = time.monotonic() + self.module.params["timeout"]
        while True:
            links = self.links()
            wrong = self.wrong_links(links)
            lost = lost_connectivity(self.wanted["links"], links_before, links, routes_before, self.routes())
            if not wrong and not lost:
                return
            if time.monotonic() >= deadline:
                dead = [port for port in self.wanted["links"] if links.get(port) and not links[port]["up"]]
                hint = f" ({', '.join(dead)} without carrier: check cable and switch port)" if dead else ""
                seconds = self.module.params["timeout"]
                raise NetplanError(f"{seconds} s after netplan apply: {'; '.join([*wrong, *lost])}{hint}")
            time.sleep(0.5)

    def restore(self, backup: bytes | None, mode: int) -> str:
        """Put the former file back and apply it; says how that went."""
        try:
            if backup is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path)
            else:
                write_file(self.path, backup, mode)
            self.apply()
        except (OSError, NetplanError) as error:
            return f"Putting {self.path} back failed too ({error}): repair it on the host's console."
        former = "removed again" if backup is None else "put back as it was"
        return f"{self.path} was {former} and applied."


def converge(module: AnsibleModule, netplan: Netplan) -> dict[str, Any]:
    """Compare, try, write, apply, wait; undo on failure."""
    links_before = netplan.links()
    missing = [port for port in netplan.wanted["links"] if port not in links_before]
    if missing:
        raise NetplanError(
            f"The host has no port {', '.join(missing)}, nothing was changed; it has "
            f"{', '.join(sorted(name for name in links_before if name != 'lo')) or 'none'}: "
            "correct fabric_network_ports to the names that `ip -br link` shows."
        )
    if clashes := overlaps(netplan.wanted["links"], links_before):
        raise NetplanError(
            f"The fabric's network is in use on this host, nothing was changed: {'; '.join(clashes)}. "
            "Choose another subnet in firstlight_fabric.rails, or correct the other port."
        )
    wrong_file, wrong_links = netplan.wrong_file(), netplan.wrong_links(links_before)
    sentences = [*wrong_file, *wrong_links]
    before = netplan.host.read_text(netplan.path)
    result: dict[str, Any] = {
        "changed": bool(sentences),
        "differences": sentences,
        "diff": [
            {
                "before_header": netplan.path,
                "after_header": netplan.path,
                "before": before or "",
                "after": netplan.content,
            },
            {"before_header": "ports", "after_header": "ports", "before": _lines(wrong_links), "after": ""},
        ],
    }
    if not sentences:
        return {**result, "diff": []}
    netplan.validate()
    if module.check_mode:
        return result

    routes_before = netplan.routes()
    backup, mode = None, MODE
    if before is not None:
        with open(netplan.path, "rb") as stream:
            backup, mode = stream.read(), os.fstat(stream.fileno()).st_mode & 0o7777
    # A connection that this change breaks must not take the undo with it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        write_file(netplan.path, netplan.content, MODE)
        netplan.apply()
        netplan.wait(links_before, routes_before)
    except (OSError, NetplanError) as error:
        raise NetplanError(f"The fabric ports did not come up: {error}. {netplan.restore(backup, mode)}") from error
    return result


def _lines(sentences: list[str]) -> str:
    return "".join(f"{sentence}\n" for sentence in sentences)


def main() -> None:
    """Arguments in, result out."""
    port_spec = {
        "port": {"type": "str", "required": True},
        "address": {"type": "str", "required": True},
        "mtu": {"type": "int", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "content": {"type": "str", "required": True},
            "ports": {"type": "list", "elements": "dict", "required": True, "options": port_spec},
            "timeout": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    host = Host()
    if not host.has("netplan"):
        module.fail_json(msg="The fabric ports cannot be configured, netplan is not installed: install netplan.io.")
    try:
        result = converge(module, Netplan(module, host))
    except (OSError, NetplanError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
