# SPDX-License-Identifier: Apache-2.0
"""The containers and the network of a lab, with the settings that make each container resemble a machine."""

from __future__ import annotations

import io
import ipaddress
import json
import os
import socket
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

from . import as_delivered
from .access import host_key
from .cache import Cache
from .host import Engine
from .images import USUAL_SYSTEM, NodeImages, equipment
from .nvidia import pci_files
from .shell import LabError, run
from .spec import CABLED_CAGE, SERVICES_HOST, LabSpec, Node, container_name

LABEL = "firstlight.lab"
REMOVAL_SECONDS = 60.0
MISCOUNT_SECONDS = 10.0
"""If a network with nothing attached still has "active endpoints" after this time, the engine has miscounted."""
SERVICE_NAMES = (
    "registry.lab.example",
    "hub.lab.example",
    "apt.lab.example",
    "nvidia.lab.example",
    "cuda.lab.example",
    "lambda.lab.example",
    "wheels.lab.example",
)
# Properties of a machine that containers usually lack. CAP_SYS_RESOURCE is left out: many hosts cannot grant it.
MACHINE_LIKE = (
    [
        "--dns=127.0.0.1",
        "--dns-opt=timeout:1",
        "--dns-opt=attempts:1",
    ]  # no name is looked up beyond this machine
    + ["--cap-add=ALL", "--cap-drop=SYS_RESOURCE", "--cgroupns=private"]
    + ["--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"]
    + ["--device-cgroup-rule=c 231:* rwm"]  # the RDMA character device, for the node to pass on
    + ["--shm-size=4g"]  # a machine gives half its memory to /dev/shm, a container 64 MB
    + ["--tmpfs=/run", "--tmpfs=/run/lock", "--tmpfs=/tmp:exec"]
)

# The engine assigns eth0 its address when the node starts; from then on the node keeps it, as a machine does. This is
# the file that a cloud's first boot writes, and Ubuntu's installer.
MANAGEMENT = """\
# Generated from the data of the machine's installation.
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


def create_network(engine: Engine, lab: str) -> str:
    """Create the management network: internal, so that no packet from a node leaves this machine."""
    name = f"firstlight-{lab}"
    if engine.docker("network", "ls", "-q", "--filter", f"name=^{name}$").strip():  # one that `remove` could not remove
        subnet = engine.docker("network", "inspect", "--format", "{{(index .IPAM.Config 0).Subnet}}", name)
        return subnet.strip().rpartition(".")[0]
    taken = host_routes()
    for third in range(256):
        if any(ipaddress.ip_network(f"172.29.{third}.0/24").overlaps(route) for route in taken):
            continue
        done = run(
            ["docker", "network", "create", "--internal", "--label", f"{LABEL}={lab}"]
            + [
                "--subnet",
                f"172.29.{third}.0/24",
                "--gateway",
                f"172.29.{third}.1",
                name,
            ],
            env=engine.env,
            check=False,
        )
        if done.returncode == 0:
            return f"172.29.{third}"
        if "overlap" not in done.stderr.lower():
            raise LabError(f"The management network could not be created: {done.stderr.strip()}")
    raise LabError("Every network in 172.29.0.0/16 is taken. Take down labs you no longer need: firstlight lab down")


def start_services(
    engine: Engine, cache: Cache, lab: str, images: NodeImages, network: str, system: str = USUAL_SYSTEM
) -> None:
    """Start the services node, from which everything is downloaded."""
    places = {
        "/srv/apt/nvidia.lab.example": cache.apt,
        "/srv/apt/cuda.lab.example": cache.cuda,
        "/srv/apt/lambda.lab.example": cache.rented,
        "/srv/apt/apt.lab.example": cache.archive(system),
        "/srv/registry": cache.registry,
        "/srv/hub": cache.hub,
        "/srv/wheels": cache.lab(lab) / "wheels",
    }
    places["/etc/lab-pki"] = cache.pki
    volumes = [part for inside, outside in places.items() for part in ("-v", f"{outside}:{inside}:ro")]
    engine.docker(
        *(
            "run",
            "-d",
            "--name",
            container_name(lab, "services"),
            "--hostname",
            "services",
            "--restart=always",
        ),
        *("--label", f"{LABEL}={lab}", "--network", f"firstlight-{lab}"),
        *("--ip", f"{network}.{SERVICES_HOST}", *volumes, images.services),
        *("python3", "-c", equipment("services.py")),
    )


def start_switch(engine: Engine, spec: LabSpec, images: NodeImages) -> None:
    """Start the switch that connects the cables of all nodes."""
    wiring = {spec.container(node.name): list(node.ports) for node in spec.nodes}
    engine.docker(
        *("run", "-d", "--name", spec.container("switch"), "--hostname", "switch", "--restart=always"),
        *(
            "--label",
            f"{LABEL}={spec.name}",
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


def start_node(engine: Engine, directory: Path, spec: LabSpec, image: str, node: Node, address: str) -> None:
    """Start a machine that boots, with an address on the management network."""
    network = address.rpartition(".")[0]
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
            f"{LABEL}={spec.name}",
            "--network",
            f"firstlight-{spec.name}",
            "--ip",
            address,
            *hosts,
        ),
        image,
    )
    engine.docker("cp", "-", f"{container}:/", stdin=archive_of(own_files(directory, spec, node, address)))
    engine.docker("start", container)
    if spec.as_delivered:
        as_delivered.add_account(engine, container, as_delivered.password(directory))


def own_files(directory: Path, spec: LabSpec, node: Node, address: str) -> dict[str, str]:
    """Return a node's individual files: keys, machine id, management address, simulated hardware."""
    key = host_key(directory, node.name)
    access = {"root/.ssh/authorized_keys": (directory / "id_ed25519.pub").read_text()}
    return {
        **(as_delivered.files() if spec.as_delivered else access),
        **as_delivered.firmware(as_delivered.serial(node.name, node.replaced), str(node.machine["profile"])),
        "etc/ssh/ssh_host_ed25519_key": key.read_text(),
        "etc/ssh/ssh_host_ed25519_key.pub": key.with_suffix(".pub").read_text(),
        "etc/machine-id": os.urandom(16).hex() + "\n",
        "etc/netplan/50-cloud-init.yaml": MANAGEMENT.format(address=address),
        "etc/firstlight-lab/machine.json": json.dumps(node.machine, indent=2) + "\n",
        **{
            f"etc/firstlight-lab/pci/{path}": content
            for path, content in pci_files(str(node.machine["profile"])).items()
        },
    }


def remove(engine: Engine, lab: str | None = None) -> list[str]:
    """Remove everything of a lab from the engine; without a name, the remains of any lab.

    Returns the networks that could not be removed: rarely, an engine still counts an endpoint that is gone, and refuses
    to remove its network until it is restarted (https://github.com/moby/moby/issues/42119).
    """
    label = f"label={LABEL}={lab}" if lab else f"label={LABEL}"
    _remove_all(engine, ["ps", "-aq", "--filter", label], ["rm", "-f", "-v"])
    _remove_all(engine, ["volume", "ls", "-q", "--filter", label], ["volume", "rm", "-f"])  # of snapshots
    return _remove_all(engine, ["network", "ls", "-q", "--filter", label], ["network", "rm"])


def _remove_all(engine: Engine, listing: list[str], removal: list[str]) -> list[str]:
    """Remove until nothing is listed: a busy engine may refuse at first, or remove with a delay."""
    began = time.monotonic()
    while found := engine.docker(*listing).split():
        try:
            engine.docker(*removal, *found)
        except LabError as error:
            waited = time.monotonic() - began
            if waited > MISCOUNT_SECONDS and "active endpoints" in str(error) and not _attached(engine, listing):
                return engine.docker(*listing, "--format", "{{.Name}}").split()
            if waited > REMOVAL_SECONDS:
                raise
            time.sleep(1)
    return []


def _attached(engine: Engine, listing: list[str]) -> list[str]:
    """Return the containers on the listed networks."""
    shown = "{{range $id, $_ := .Containers}}{{$id}} {{end}}"
    return [
        container
        for network in engine.docker(*listing).split()
        for container in engine.docker("network", "inspect", "--format", shown, network).split()
    ]


def archive_of(files: Mapping[str, str]) -> str:
    """Build a tar archive whose files belong to root; keys and netplan files are readable by root only."""
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
    return target.getvalue().decode("ascii")  # the headers are ASCII, too


def host_routes() -> list[ipaddress.IPv4Network]:
    """Return the networks this machine already has routes to; a lab must not use any of them."""
    rows = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]

    def dotted(word: str) -> str:
        return socket.inet_ntoa(bytes.fromhex(word)[::-1])

    return [ipaddress.IPv4Network(f"{dotted(row[1])}/{dotted(row[7])}") for row in rows if row[7] != "00000000"]
