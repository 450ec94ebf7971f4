# SPDX-License-Identifier: Apache-2.0
"""Bringing a lab up, looking at it, and taking it down without a trace."""

from __future__ import annotations

import io
import ipaddress
import json
import os
import shutil
import socket
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import first_touch, limits
from .builder import Builds, abandon
from .cache import Cache
from .catalog import write_catalog
from .engine import EngineArtifacts
from .engine import build as build_engine_image
from .host import Engine, Say, engine_to_clean, ensure_engine, find_engine, require_engine, stop_private
from .images import BUILD_PREFIX, NodeImages, ensure_images, equipment
from .nvidia import pci_files
from .shell import LabError, run
from .spec import CABLED_CAGE, FIRST_NODE_HOST, PROFILES, SERVICES_HOST, LabSpec, Node
from .wheels import write_index

LABEL = "firstlight.lab"
SERVICE_NAMES = (
    "registry.lab.example",
    "hub.lab.example",
    "apt.lab.example",
    "nvidia.lab.example",
    "wheels.lab.example",
)
# What a machine has and a container normally has not. CAP_SYS_RESOURCE is left out: many hosts cannot give it.
MACHINE_LIKE = (
    [
        "--dns=127.0.0.1",
        "--dns-opt=timeout:1",
        "--dns-opt=attempts:1",
    ]  # no name is looked up beyond this machine
    + ["--cap-add=ALL", "--cap-drop=SYS_RESOURCE", "--cgroupns=private"]
    + ["--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"]
    + ["--device-cgroup-rule=c 231:* rwm"]  # the RDMA character device, for the node to hand on
    + ["--shm-size=4g"]  # a machine gives half its memory to /dev/shm, a container 64 MB
    + ["--tmpfs=/run", "--tmpfs=/run/lock", "--tmpfs=/tmp:exec"]
)

# The engine gives eth0 its address when the node starts; from then on the node keeps it, as a machine does.
MANAGEMENT = """\
network:
  version: 2
  ethernets:
    eth0:
      addresses: [{address}/24]
      dhcp4: false
      dhcp6: false
      accept-ra: false
      link-local: []
"""


class Lab:
    """A lab by its name, in a cache, on an engine."""

    def __init__(self, cache: Cache, name: str, say: Say) -> None:
        self.cache = cache
        self.name = name
        self.say = say
        self.directory = cache.lab(name)

    # -- up ---------------------------------------------------------------------------------------------------

    def up(self, spec: LabSpec) -> None:
        """Start everything that is not running yet; a second `up` finds it all there."""
        require_engine(self.cache)
        with self.cache.locked():
            engine = ensure_engine(self.cache, self.say)
            images, artifacts = self._build(engine, spec)
            if self._running(engine):
                self._wait_for_all(engine)
                self.say(f"The lab {self.name} is already up")
                return
            self._remove(engine)
            others = [path for path in self.cache.labs.glob("*/lab.json") if path.parent != self.directory]
            limits.raise_for(self.cache, limits.nodes_of(others) + len(spec.nodes), self.say)
            network = self._create_network(engine)
            self.directory.mkdir(parents=True, exist_ok=True)
            write_catalog(self.cache, self.directory / "catalog", artifacts, PROFILES[spec.profile].factory)
            write_index(self.directory / "wheels", self.directory / "catalog" / "locks")
            addresses = {node.name: f"{network}.{FIRST_NODE_HOST + index}" for index, node in enumerate(spec.nodes)}
            self._write_access(spec, addresses)
            self._write_record(spec, addresses, network)
            if spec.first_touch:
                first_touch.password(self.directory)  # made before the nodes start side by side
            self.say(f"Starting {len(spec.nodes)} nodes and the services node")
            self._start_services(engine, images, network)
            with ThreadPoolExecutor(max_workers=4) as pool:
                jobs = [
                    pool.submit(self._start_node, engine, spec, images, node, addresses[node.name], network)
                    for node in spec.nodes
                ]
                for job in jobs:
                    job.result()
            self._start_switch(engine, spec, images)
            self._wait_for_all(engine)
        self.say(f"The lab {self.name} is up: {', '.join(addresses)}")
        if spec.first_touch:
            self.say(
                f"Only {first_touch.USER} can log in, with the password in {self.directory / first_touch.PASSWORD}"
            )

    def _write_record(self, spec: LabSpec, addresses: dict[str, str], network: str) -> None:
        record = {
            "name": self.name,
            "profile": spec.profile,
            "fabric_mtu": spec.fabric_mtu,
            "first_touch": spec.first_touch,
            "network": f"{network}.0/24",
            "nodes": [{**asdict(node), "address": addresses[node.name]} for node in spec.nodes],
        }
        self.write_record(record)

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Write down what the lab consists of now."""
        (self.directory / "lab.json").write_text(json.dumps(record, indent=2) + "\n")

    def _wait_for_all(self, engine: Engine) -> None:
        """Until every node of the record has booted, has its cables and lets people in."""
        record = self.record()
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda node: self._wait_for_node(engine, node), record["nodes"]))
        self._wait_for_services(record["network"].rpartition(".")[0] + f".{SERVICES_HOST}")

    def _build(self, engine: Engine, spec: LabSpec) -> tuple[NodeImages, EngineArtifacts]:
        """Node images and inference image side by side: the first waits for packages, the second for wheels."""
        builds = Builds(self.cache, engine, self.say)

        def inference_image() -> EngineArtifacts:
            builds.provide("inference")
            return build_engine_image(self.cache.root, self.say)

        with ThreadPoolExecutor(max_workers=2) as pool:
            inference = pool.submit(inference_image)
            try:
                builds.provide("node")
                images = ensure_images(self.cache, engine, PROFILES[spec.profile].factory, self.say)
                return images, inference.result()
            except BaseException:
                builds.give_up()
                raise

    def _container(self, node: str) -> str:
        return f"firstlight-{self.name}-{node}"

    def _running(self, engine: Engine) -> bool:
        path = self.directory / "lab.json"
        if not path.exists():
            return False
        wanted = {self._container(node["name"]) for node in json.loads(path.read_text())["nodes"]}
        wanted |= {self._container("switch"), self._container("services")}
        names = engine.docker("ps", "--filter", f"label={LABEL}={self.name}", "--format", "{{.Names}}").split()
        return wanted <= set(names)

    def _create_network(self, engine: Engine) -> str:
        """The management network: internal, so that no packet of a node leaves this machine."""
        taken = host_routes()
        for third in range(256):
            if any(ipaddress.ip_network(f"172.29.{third}.0/24").overlaps(route) for route in taken):
                continue
            done = run(
                ["docker", "network", "create", "--internal", "--label", f"{LABEL}={self.name}"]
                + [
                    "--subnet",
                    f"172.29.{third}.0/24",
                    "--gateway",
                    f"172.29.{third}.1",
                    f"firstlight-{self.name}",
                ],
                env=engine.env,
                check=False,
            )
            if done.returncode == 0:
                return f"172.29.{third}"
            if "overlap" not in done.stderr.lower():
                raise LabError(f"The management network could not be made: {done.stderr.strip()}")
        raise LabError(
            "Every network in 172.29.0.0/16 is taken. Take down labs you no longer need: firstlight lab down"
        )

    def _write_access(self, spec: LabSpec, addresses: dict[str, str]) -> None:
        """Keys, known hosts and an ssh_config: whoever has the directory may log in, nobody else."""
        keys = self.directory / "keys"
        keys.mkdir(mode=0o700, exist_ok=True)
        identity = self.directory / "id_ed25519"
        if not identity.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab-{self.name}", "-f", str(identity)])
        known, config = [], []
        for node in spec.nodes:
            host_key = keys / f"{node.name}_ed25519"
            if not host_key.exists():
                run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.name, "-f", str(host_key)])
            known.append(f"{node.name},{addresses[node.name]} {host_key.with_suffix('.pub').read_text().strip()}")
            config += [f"Host {node.name}", f"  HostName {addresses[node.name]}", ""]
        # Bound to the management bridge: without the bridge, no packet looks for the nodes elsewhere.
        gateway = next(iter(addresses.values())).rpartition(".")[0] + ".1"
        config += [
            "Host *",
            f"  BindAddress {gateway}",
            f"  User {first_touch.USER if spec.first_touch else 'root'}",
            f"  IdentityFile {identity}",
            "  IdentitiesOnly yes",
        ]
        config += [
            f"  UserKnownHostsFile {self.directory / 'known_hosts'}",
            "  StrictHostKeyChecking yes",
            "",
        ]
        (self.directory / "known_hosts").write_text("\n".join(known) + "\n")
        (self.directory / "ssh_config").write_text("\n".join(config))

    def _start_services(self, engine: Engine, images: NodeImages, network: str) -> None:
        places = {
            "/srv/apt": self.cache.apt,
            "/srv/registry": self.cache.registry,
            "/srv/hub": self.cache.hub,
            "/srv/wheels": self.directory / "wheels",
        }
        places["/etc/lab-pki"] = self.cache.pki
        volumes = [part for inside, outside in places.items() for part in ("-v", f"{outside}:{inside}:ro")]
        engine.docker(
            *(
                "run",
                "-d",
                "--name",
                self._container("services"),
                "--hostname",
                "services",
                "--restart=always",
            ),
            *("--label", f"{LABEL}={self.name}", "--network", f"firstlight-{self.name}"),
            *("--ip", f"{network}.{SERVICES_HOST}", *volumes, images.services),
            *("python3", "-c", equipment("services.py")),
        )

    def _start_switch(self, engine: Engine, spec: LabSpec, images: NodeImages) -> None:
        wiring = {spec.container(node.name): list(node.ports) for node in spec.nodes}
        engine.docker(
            *("run", "-d", "--name", self._container("switch"), "--hostname", "switch", "--restart=always"),
            *(
                "--label",
                f"{LABEL}={self.name}",
                "--network=none",
                "--pid=host",
                "-v",
                f"{engine.socket}:/run/engine.sock",
            ),
            *("--cap-add=NET_ADMIN", "--cap-add=SYS_ADMIN", "--cap-add=SYS_PTRACE"),
            *("--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"),
            *("-e", f"FABRIC_WIRING={json.dumps(wiring)}", "-e", f"FABRIC_MTU={spec.fabric_mtu}"),
            *("-e", f"FABRIC_CAGE={CABLED_CAGE}"),
            *(images.services, "python3", "-c", equipment("switch.py")),
        )

    def _start_node(
        self, engine: Engine, spec: LabSpec, images: NodeImages, node: Node, address: str, network: str
    ) -> None:
        container = spec.container(node.name)
        hosts = [f"--add-host={name}:{network}.{SERVICES_HOST}" for name in SERVICE_NAMES]
        disk = ["-v", "/var/lib/docker"]
        if node.docker_disk:
            disk = [f"--tmpfs=/var/lib/docker:exec,size={node.docker_disk}"]
        engine.docker(
            *(
                "create",
                "--name",
                container,
                "--hostname",
                node.name,
                "--restart=always",
                *MACHINE_LIKE,
                *disk,
            ),
            *(
                "--label",
                f"{LABEL}={self.name}",
                "--network",
                f"firstlight-{self.name}",
                "--ip",
                address,
                *hosts,
            ),
            images.bare if node.bare else images.node,
        )
        engine.docker("cp", "-", f"{container}:/", stdin=archive_of(self._own_files(spec, node, address)))
        engine.docker("start", container)
        if spec.first_touch:
            first_touch.add_account(engine, container, first_touch.password(self.directory))

    def exchange(self, node: str) -> None:
        """Put another machine of the same kind in a node's place: an empty disk, and a key that nobody knows yet."""
        record, engine, container = self.record(), self.engine(), self.container(node)
        entry = next(one for one in record["nodes"] if one["name"] == node)
        entry["replaced"] = entry.get("replaced", 0) + 1
        image = engine.docker("inspect", "--format", "{{.Config.Image}}", container).strip()
        spec = LabSpec(self.name, record["profile"], (), record["fabric_mtu"], record["first_touch"])
        made = Node(**{key: value for key, value in entry.items() if key != "address"})
        network = record["network"].rpartition(".")[0]
        engine.docker("rm", "-f", "-v", container)
        key = self.directory / "keys" / f"{node}_ed25519"
        for old in (key, key.with_suffix(".pub")):
            old.unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node, "-f", str(key)])
        self.write_record(record)
        self._start_node(engine, spec, NodeImages(node=image, bare=image, services=""), made, entry["address"], network)
        self.wait_for(node)

    def _own_files(self, spec: LabSpec, node: Node, address: str) -> dict[str, str]:
        """What makes this node itself: its keys, its machine id, its management address, the hardware it plays."""
        key = self.directory / "keys" / f"{node.name}_ed25519"
        access = {"root/.ssh/authorized_keys": (self.directory / "id_ed25519.pub").read_text()}
        return {
            **(first_touch.files() if spec.first_touch else access),
            **first_touch.firmware(first_touch.serial(node.name, node.replaced), str(node.machine["profile"])),
            "etc/ssh/ssh_host_ed25519_key": key.read_text(),
            "etc/ssh/ssh_host_ed25519_key.pub": key.with_suffix(".pub").read_text(),
            "etc/machine-id": os.urandom(16).hex() + "\n",
            "etc/netplan/50-management.yaml": MANAGEMENT.format(address=address),
            "etc/firstlight-lab/machine.json": json.dumps(node.machine, indent=2) + "\n",
            **{
                f"etc/firstlight-lab/pci/{path}": content
                for path, content in pci_files(str(node.machine["profile"])).items()
            },
        }

    def _wait_for_node(self, engine: Engine, node: dict[str, Any]) -> None:
        name, address = node["name"], node["address"]
        container = self._container(name)

        def ready() -> bool:
            # It answers when the node has booted: asking again and again would take the time that booting needs.
            asked = ("timeout", "30", "systemctl", "is-system-running", "--wait")
            if engine.docker("exec", container, *asked, check=False).strip() not in ("running", "degraded"):
                return False
            return set(node["ports"]) <= set(engine.docker("exec", container, "ls", "/sys/class/net").split())

        wait_until(ready, 90, f"{name} did not finish starting; look at it with: docker logs {container}")
        wait_until(lambda: answers(address, 22), 30, f"sshd on {name} does not answer")

    def _wait_for_services(self, address: str) -> None:
        for port, what in ((80, "apt repository"), (443, "registry"), (8443, "model hub"), (8444, "wheel index")):
            wait_until(lambda port=port: answers(address, port), 30, f"The lab's {what} does not answer")  # type: ignore[misc]

    # -- status, fabric, down -----------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """What `up` wrote down."""
        path = self.directory / "lab.json"
        if not path.exists():
            known = sorted(p.name for p in self.cache.labs.glob("*") if (p / "lab.json").exists())
            raise LabError(
                f"There is no lab {self.name!r}. "
                + (f"Labs that are up: {', '.join(known)}." if known else "Start one with: firstlight lab up")
            )
        result: dict[str, Any] = json.loads(path.read_text())
        return result

    def status(self) -> list[dict[str, Any]]:
        """One row a node: is it running, does systemd say so, which ports a cable connects."""
        record = self.record()
        engine = find_engine(self.cache)
        linked: dict[str, list[str]] = {}
        if engine is not None:
            asked = ("python3", "-c", equipment("switch.py"), "links")
            linked = json.loads(engine.docker("exec", self._container("switch"), *asked, check=False) or "{}")
        rows = []
        for node in record["nodes"]:
            row = {"name": node["name"], "address": node["address"], "state": "stopped", "ports": []}
            if engine is not None:
                container = self._container(node["name"])
                state = engine.docker("exec", container, "systemctl", "is-system-running", check=False).strip()
                links = engine.docker("exec", container, "ls", "/sys/class/net", check=False).split()
                row["state"] = state or "stopped"
                row["ports"] = [port for port in linked.get(container, []) if port in links]
            rows.append(row)
        return rows

    def container(self, node: str) -> str:
        """The container that plays a node of this lab, the switch or the services."""
        known = [entry["name"] for entry in self.record()["nodes"]] + ["services", "switch"]
        if node not in known:
            raise LabError(f"There is no node {node!r} in the lab {self.name}; its nodes are {', '.join(known)}.")
        return self._container(node)

    def wait_for(self, node: str) -> None:
        """Until a node that was started has booted, has its cables and lets people in."""
        record = self.record()
        if node == "services":
            self._wait_for_services(record["network"].rpartition(".")[0] + f".{SERVICES_HOST}")
        for entry in record["nodes"]:
            if entry["name"] == node:
                self._wait_for_node(self.engine(), entry)

    def engine(self) -> Engine:
        """The engine that carries this lab."""
        engine = find_engine(self.cache)
        if engine is None:
            raise LabError(f"The lab {self.name} has no running Docker engine. Start it again with: firstlight lab up")
        return engine

    def down(self) -> None:
        """Remove every trace of this lab; the last one also ends the private engine."""
        with self.cache.locked():
            engine = engine_to_clean(self.cache)
            if engine is not None:
                self._remove(engine)
                self.say(f"The lab {self.name} is down")
                if not engine.docker("ps", "-aq", "--filter", f"label={LABEL}").strip():
                    self._remove_shared(engine)
            elif self.cache.runtime.exists():
                limits.restore(self.cache)
                stop_private(self.cache, self.say)
            shutil.rmtree(self.directory, ignore_errors=True)

    def _remove_shared(self, engine: Engine) -> None:
        """What all labs share and none needs any more: our engine, or our images in somebody else's."""
        limits.restore(self.cache)
        abandon(self.cache, engine)
        stale = engine.docker("ps", "-aq", "--filter", f"name=^/{BUILD_PREFIX}").split()
        if stale:
            engine.docker("rm", "-f", "-v", *stale)
        if engine.private:
            stop_private(self.cache, self.say)
            return
        images = engine.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "firstlight-lab/*").split()
        if images:
            engine.docker("image", "rm", *images)

    def _remove(self, engine: Engine) -> None:
        label = f"label={LABEL}={self.name}"
        containers = engine.docker("ps", "-aq", "--filter", label).split()
        if containers:
            engine.docker("rm", "-f", "-v", *containers)
        networks = engine.docker("network", "ls", "-q", "--filter", label).split()
        if networks:
            engine.docker("network", "rm", *networks)


def archive_of(files: Mapping[str, str]) -> str:
    """A tar archive in which the files are root's, whoever makes it; keys and netplan are for root's eyes only."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            entry.mtime = int(time.time())
            entry.mode = 0o600 if name.endswith(("_key", "authorized_keys", ".yaml")) else 0o644
            if "/sbin/" in name:
                entry.mode = 0o755
            archive.addfile(entry, io.BytesIO(text.encode("ascii")))
    return target.getvalue().decode("ascii")  # as are its headers


def host_routes() -> list[ipaddress.IPv4Network]:
    """The networks this machine reaches already; a lab must not take one of them."""
    rows = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]

    def dotted(word: str) -> str:
        return socket.inet_ntoa(bytes.fromhex(word)[::-1])

    return [ipaddress.IPv4Network(f"{dotted(row[1])}/{dotted(row[7])}") for row in rows if row[7] != "00000000"]


def answers(address: str, port: int) -> bool:
    """Does something listen there?"""
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float, message: str) -> None:
    """Poll until it is so; otherwise the message, with the time that was given."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"{message} (waited {seconds:.0f} s).")
        time.sleep(0.3)


def labs_up(cache: Cache) -> Iterable[str]:
    """Names of the labs that have been brought up and not taken down."""
    return sorted(path.parent.name for path in cache.labs.glob("*/lab.json"))
