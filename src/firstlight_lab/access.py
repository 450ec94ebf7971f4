# SPDX-License-Identifier: Apache-2.0
"""Login to a lab's nodes: keys, known hosts and an ssh_config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from . import as_delivered
from .shell import run
from .spec import LabSpec


def host_key(directory: Path, node: str) -> Path:
    """Return the path of a node's private host key; the public key is beside it."""
    return directory / "keys" / f"{node}_ed25519"


def make_key(path: Path, comment: str) -> None:
    """Generate a key pair, replacing an existing one."""
    for old in (path, path.with_suffix(".pub")):
        old.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def write_access(directory: Path, spec: LabSpec, addresses: Mapping[str, str]) -> None:
    """Write keys, known_hosts and ssh_config: access to the directory grants login."""
    (directory / "keys").mkdir(mode=0o700, exist_ok=True)
    identity = directory / "id_ed25519"
    if not identity.exists():
        make_key(identity, f"lab-{spec.name}")
    known, config = [], []
    for node in spec.nodes:
        key = host_key(directory, node.name)
        if not key.exists():
            make_key(key, node.name)
        known.append(f"{node.name},{addresses[node.name]} {key.with_suffix('.pub').read_text().strip()}")
        config += [f"Host {node.name}", f"  HostName {addresses[node.name]}", ""]
    # Bind to the management bridge, so that without it no packet looks for the nodes on another network.
    gateway = next(iter(addresses.values())).rpartition(".")[0] + ".1"
    config += [
        "Host *",
        f"  BindAddress {gateway}",
        f"  User {as_delivered.USER if spec.as_delivered else 'root'}",
        f"  IdentityFile {identity}",
        "  IdentitiesOnly yes",
        f"  UserKnownHostsFile {directory / 'known_hosts'}",
        "  StrictHostKeyChecking yes",
        "",
    ]
    (directory / "known_hosts").write_text("\n".join(known) + "\n")
    (directory / "ssh_config").write_text("\n".join(config))
