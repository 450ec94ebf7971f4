# SPDX-License-Identifier: Apache-2.0
"""A cluster with firewall, endpoint and metrics as a client of it, or its owner, comes to it."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import threading
from pathlib import Path
from typing import Any, Self

import yaml

from tests.e2e.exposed.secrets import Told, with_token
from tests.e2e.serving.engine_starts import note_engine_starts
from tests.e2e.serving.lab import EXPOSED, Serving
from tests.e2e.serving.places import clear

HEAD, WORKER = EXPOSED.nodes
HTTPS = 443


def first_run(serving: Serving, directory: Path) -> Told:
    """Serve like this, by a run that makes the secrets, tells all and has a node take the model from the other."""
    if serving.serves:
        clear(serving)
    serving.profile = EXPOSED
    serving.inside(WORKER, "rm -rf /var/lib/firstlight/models/*")
    told = Told(serving.playbook("site.yml", *with_token(directory)).output)
    serving.serves = True
    note_engine_starts("endpoint", serving.groups())
    serving.assert_serves()
    return told


def address(serving: Serving, node: str = "") -> str:
    """The management address of a node; that of the head where none is named."""
    name = node or serving.profile.head
    return str(next(one["address"] for one in serving.lab.record()["nodes"] if one["name"] == name))


def state(serving: Serving) -> Path:
    """Where the controller keeps what clients need."""
    return Path(serving.env["XDG_STATE_HOME"]) / "firstlight" / Path(serving.profile.inventory).name


def key(serving: Serving, name: str) -> str:
    return (state(serving) / "keys" / name).read_text().strip()


def context(serving: Serving) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(state(serving) / "ca.crt"))


def asked(serving: Serving, path: str, value: str = "", *, method: str = "GET", body: bytes = b"") -> tuple[int, Any]:
    """The status and the code of the error, of a request from the controller."""
    connection = http.client.HTTPSConnection(address(serving), HTTPS, timeout=30, context=context(serving))
    headers = {"Authorization": f"Bearer {value}"} if value else {}
    try:
        connection.request(method, path, body=body or None, headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, (json.loads(text) if text.startswith(b"{") else {}).get("error", {}).get("code")
    finally:
        connection.close()


def with_intent(**changes: Any) -> tuple[str, str]:
    """Another intent than the inventory's, as an operator would write it there."""
    return "-e", json.dumps(changes)


def site_without(serving: Serving, directory: Path, *names: str) -> list[str]:
    """The command line of site.yml with an inventory from which an operator took these variables."""
    inventory = directory / Path(serving.profile.inventory).name
    shutil.copytree(serving.profile.inventory, inventory)
    path = inventory / "group_vars/cluster.yml"
    kept = {name: value for name, value in yaml.safe_load(path.read_text()).items() if name not in names}
    path.write_text(yaml.safe_dump(kept))
    return ["ansible-playbook", "site.yml", "-i", str(inventory)]


def pids(serving: Serving) -> tuple[str, str]:
    """The main processes of nginx and of the engine."""
    asked_for = "systemctl show -p MainPID --value firstlight-endpoint firstlight-server"
    shown = serving.inside(serving.profile.head, asked_for).split()
    return shown[0], shown[1]


def left(serving: Serving, node: str) -> str:
    """What of the three roles is on a node."""
    return serving.inside(
        node,
        "ls -d /etc/firstlight/endpoint /etc/firstlight/firewall.nft /etc/firstlight/metrics.json 2>/dev/null || true; "
        "ls /etc/systemd/system | grep -E 'firstlight-(endpoint|firewall|metrics)' || true; "
        "nft list tables | grep firstlight || true; ss -ltnH '( sport = :443 or sport = :9410 or sport = :9100 )'",
    )


class Asking(threading.Thread):
    """A client that asks again and again while something else happens, and what it was answered."""

    def __init__(self, serving: Serving, value: str) -> None:
        super().__init__(daemon=True)
        self._serving, self._value, self._ended = serving, value, threading.Event()
        self.statuses: list[int] = []

    def run(self) -> None:
        while not self._ended.wait(0.5):
            try:
                self.statuses.append(asked(self._serving, "/v1/models", self._value)[0])
            except OSError:
                self.statuses.append(0)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(timeout=60)
