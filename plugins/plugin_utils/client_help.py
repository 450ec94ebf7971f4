# SPDX-License-Identifier: Apache-2.0
"""What a client of the endpoint needs: address, authority, key, and a command to copy."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import endpoint

ROLE, SERVER = "endpoint", "inference_server"
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - recognised, not bound


class NoEndpointError(Exception):
    """The plan has no usable endpoint; the message includes the remedy."""


@dataclass(frozen=True)
class ClientFiles:
    """Paths of the files a client needs on the controller, each readable only by its owner."""

    directory: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate that verifies the endpoint's; does not exist if that one is public."""
        return self.directory / "ca.crt"

    def key(self, name: str) -> Path:
        return self.directory / "keys" / name

    def header(self, name: str) -> Path:
        """The file with the key as a header line, for `curl -H @FILE`: a key never appears on a command line."""
        return self.directory / "keys" / f"{name}.header"


@dataclass(frozen=True)
class ClientHelp:
    """How to send requests to a cluster."""

    url: str
    """The base URL, ending in /v1 as OpenAI's clients expect."""
    model: str
    key: str
    files: ClientFiles
    own_authority: bool = True
    """Whether the cluster's own authority issued the certificate; no machine trusts that by default."""

    def lines(self) -> list[str]:
        """Describe what a client needs, without secrets; the last line is a command to copy."""
        rows = {
            "address": self.url,
            "model": self.model,
            "key": str(self.files.key(self.key)),
            **({"authority": str(self.files.authority)} if self.own_authority else {}),
        }
        return [*(f"{name.ljust(10)} {value}" for name, value in rows.items()), "", self.curl()]

    def curl(self, question: str = "Say hello.") -> str:
        """Return a command line to copy, without secrets."""
        body = {"model": self.model, "messages": [{"role": "user", "content": question}]}
        words = [
            "curl",
            "--no-progress-meter",
            *(["--cacert", str(self.files.authority)] if self.own_authority else []),
            "--header",
            f"@{self.files.header(self.key)}",
            "--header",
            "Content-Type: application/json",
            "--data",
            json.dumps(body),
            f"{self.url}/chat/completions",
        ]
        return shlex.join(words)


def cluster_name(sources: Iterable[str]) -> str:
    """Return the name of a cluster on the controller: its inventory's directory, as in Ansible's inventory_dir."""
    for source in sources:
        if "," not in source:
            path = Path(source).expanduser().resolve()
            return (path if path.is_dir() else path.parent).name
    return "cluster"


def state_directory(cluster: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return the directory where the controller keeps a cluster's keys."""
    given = os.environ if environment is None else environment
    base = given.get("XDG_STATE_HOME") or ""
    # The XDG specification requires relative paths to be ignored.
    root = Path(base) if base.startswith("/") else Path(given.get("HOME") or Path.home()) / ".local" / "state"
    return root / "firstlight" / cluster


def client_files(directory: Path, keys: Mapping[str, str], authority: str) -> dict[Path, str]:
    """Return the client files' contents by path; without an authority if the certificate is a public one."""
    place = ClientFiles(directory)
    written = {place.key(name): f"{value}\n" for name, value in keys.items()}
    written |= {place.header(name): f"Authorization: Bearer {value}\n" for name, value in keys.items()}
    return written | ({place.authority: authority} if authority else {})


def planned_help(
    roles: Mapping[str, Any], host: str, inventory: Iterable[str], *, model: str = "", key: str = ""
) -> ClientHelp:
    """Return how to reach the endpoint planned for this host, in the cluster of these inventories.

    Without a model, the served one is used. Raises NoEndpointError as `help_of` does.
    """
    own = roles.get(ROLE) or {}
    given = str(own.get("endpoint_client_directory") or "")
    directory = (
        Path(given).expanduser()
        if given
        else state_directory(str(own.get("endpoint_cluster") or "") or cluster_name(inventory))
    )
    served = str((roles.get(SERVER) or {}).get("inference_server_served_name") or "")
    return help_of(roles, model or served, host, directory, key)


def help_of(roles: Mapping[str, Any], served_name: str, host: str, directory: Path, key: str = "") -> ClientHelp:
    """Return how to reach the endpoint with these role variables; `host` is its inventory name.

    Raises NoEndpointError if there is no endpoint or no such key.
    """
    variables = roles.get(ROLE)
    if not variables:
        raise NoEndpointError(
            "this cluster has no endpoint: set firstlight_endpoint (docs/endpoint.md), and run site.yml"
        )
    listed = [str(one["name"]) for one in variables["endpoint_keys"]]
    if key and key not in listed:
        raise NoEndpointError(f"there is no key {key!r}: the endpoint has {', '.join(listed)}")
    if not listed:
        raise NoEndpointError("the endpoint has no keys: list one in firstlight_endpoint.keys, and run site.yml")
    own = not variables.get("endpoint_certificate")
    return ClientHelp(endpoint_url(variables, host), served_name, key or listed[0], ClientFiles(directory), own)


def endpoint_url(variables: Mapping[str, Any], host: str) -> str:
    """Return the URL for clients; `variables` are those of role endpoint on this host."""
    listen, port = str(variables["endpoint_listen"]), int(variables["endpoint_port"])
    names = [str(name) for name in variables.get("endpoint_names") or []]
    address = listen if listen not in _WILDCARDS else (names or [host])[0]
    place = endpoint(address, port) if port != 443 else f"[{address}]" if ":" in address else address
    return f"https://{place}/v1"
