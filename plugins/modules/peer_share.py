#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: peer_share
short_description: Share verified files with the other nodes of a cluster for a while
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Starts the transient systemd unit C(firstlight-share.service), which serves directories that have a record of
    verified files over HTTP, in the words of a model hub, so that M(firstlight.cluster.model_snapshot) on the other
    nodes takes them from here, resumes and verifies them as from the hub itself.
  - It serves only files of the record that are still as they were verified, only to whoever has O(token), and ends by
    itself after O(lifetime), or when nobody came for O(idle) seconds. Requests are signed with the token, which is
    itself never sent.
  - What it lists cannot be believed by whoever asks over the network. The digest of each list is returned here, for
    O(firstlight.cluster.model_snapshot#module:listing).
  - The token goes into a file that only root can read, and that is removed as soon as the share has read it.
options:
  state:
    description:
      - Whether to share. A share of an earlier run is replaced.
      - With O(token), V(stopped) ends only the share that has this token, and leaves that of another run alone.
    type: str
    choices: [started, stopped]
    default: started
  address:
    description: The address of this node on the fabric, to listen on. Required to start.
    type: str
  port:
    description: The port to listen on.
    type: int
    default: 29610
  directories:
    description: Directories with a record, as M(firstlight.cluster.model_snapshot) leaves it. Required to start.
    type: list
    elements: path
  token:
    description: What the others sign their requests with, 32 letters and digits or more. Required to start.
    type: str
  lifetime:
    description: Seconds after which it ends, whatever happens.
    type: int
    default: 21600
  idle:
    description: Seconds without a connection after which it ends.
    type: int
    default: 900
  connections:
    description: Connections at the same time; more wait. Whoever waits for a minute gives up and tries again.
    type: int
    default: 256
  peers:
    description:
      - Addresses of the nodes that are to take the files, which share the O(connections) among them. All others
        together have a few connections beside them, and need the token as well. Without any, no address comes first.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reports that it would share, and starts nothing.
    support: full
  diff_mode:
    description: A share has no diff.
    support: none
"""

EXAMPLES = r"""
- name: Share the model with the other nodes
  firstlight.cluster.peer_share:
    address: 192.168.100.10
    directories: [/srv/models/tiny]
    token: "{{ share_token }}"

- name: Stop sharing the model
  firstlight.cluster.peer_share:
    state: stopped
    token: "{{ share_token }}"
"""

RETURN = r"""
endpoint:
  description: What the other nodes give as C(endpoint) to M(firstlight.cluster.model_snapshot).
  type: str
  returned: when started
  sample: http://192.168.100.10:29610
listings:
  description: The SHA-256 of what the share lists of each of O(directories), in their order.
  type: list
  elements: str
  returned: when started
  sample: ["sha256:5c50b988966f2cbdc39fdbcddd0cf78a745c50b988966f2cbdc39fdbcddd0cf7"]
"""

import hashlib
import hmac
import inspect
import ipaddress
import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines, unit_state
from ansible_collections.firstlight.cluster.plugins.module_utils.weights import share_program as program
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import (
    RECORD_NAME,
    listing,
    parse_record,
    verify_record,
)

UNIT = "firstlight-share.service"
DIRECTORY = "/run/firstlight/share"
SHORTEST_TOKEN = 32
OWNER = "owner"
"""The file with the digest of the token by which a run knows its own share again."""
# It reads some files and answers on one port: nothing else is left to it.
PROPERTIES = (
    "Type=notify",
    "NotifyAccess=main",
    "TimeoutStartSec=30",
    "TimeoutStopSec=10",
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    f"ReadWritePaths={DIRECTORY}",
    "PrivateTmp=yes",
    "CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_DAC_OVERRIDE",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
)


class ShareError(Exception):
    """Why nothing can be shared, for the operator."""


def shared_directory(host: Host, directory: str) -> dict[str, Any]:
    """What is served of a directory: the files its record names, each as it was verified."""
    text = host.read_text(os.path.join(directory, RECORD_NAME))
    try:
        record = parse_record(text) if text is not None else None
    except ValueError as error:
        raise ShareError(f"{directory} cannot be shared: {error}; verify its files again") from error
    if record is None:
        raise ShareError(f"{directory} has no record of verified files, expected one to share: verify its files first")
    verified, reason = verify_record(record, lambda path: host.size_and_mtime(os.path.join(directory, path)))
    if not verified:
        raise ShareError(
            f"{directory} cannot be shared: {reason}; expected it as it was verified: fetch it again on this node first"
        )
    return {
        "directory": directory,
        "repository": record["repository"],
        "revision": record["revision"],
        "files": record["files"],
        "listing": json.dumps(listing(record)),
    }


def settings(host: Host, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What the share is told. Refuses what could not be served."""
    token = parameters["token"]
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isalnum():
        raise ShareError(
            f"the token has {len(token)} characters, expected {SHORTEST_TOKEN} or more letters and digits: make one "
            "for each run"
        )
    for name in ("lifetime", "idle", "connections"):
        if parameters[name] < 1:
            raise ShareError(f"{name} is {parameters[name]}, expected 1 or more")
    try:
        peers = [str(ipaddress.ip_address(one)) for one in parameters["peers"]]
    except ValueError as error:
        raise ShareError(
            f"peers has an entry that is not an address ({error}): give the nodes' own addresses on the fabric"
        ) from error
    return {
        "address": parameters["address"],
        "port": parameters["port"],
        "token": token,
        "connections": parameters["connections"],
        "idle": parameters["idle"],
        "peers": peers,
        "shared": [shared_directory(host, directory) for directory in parameters["directories"]],
    }


def command(directory: str, lifetime: int) -> list[str]:
    """How systemd is asked to run it; no secret is in here."""
    return [
        "systemd-run",
        f"--unit={UNIT}",
        "--description=Firstlight: files for the other nodes",
        "--collect",
        "--quiet",
        f"--property=RuntimeMaxSec={lifetime}",
        *(f"--property={one}" for one in PROPERTIES),
        sys.executable or "/usr/bin/python3",
        "-I",
        os.path.join(directory, "share.py"),
        os.path.join(directory, "settings.json"),
    ]


def start(host: Host, parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Share; what an earlier run shared ends."""
    wanted = settings(host, parameters)
    name = f"[{wanted['address']}]" if ":" in wanted["address"] else wanted["address"]
    listings = [f"sha256:{hexdigest(one['listing'])}" for one in wanted["shared"]]
    result = {"changed": True, "endpoint": f"http://{name}:{wanted['port']}", "listings": listings}
    if check_mode:
        return result
    stop(host, "", check_mode=False)
    os.makedirs(os.path.dirname(DIRECTORY), mode=0o755, exist_ok=True)
    os.makedirs(DIRECTORY, mode=0o700, exist_ok=True)
    write_file(os.path.join(DIRECTORY, "share.py"), inspect.getsource(program), 0o600)
    write_file(os.path.join(DIRECTORY, "settings.json"), json.dumps(wanted), 0o600)
    write_file(os.path.join(DIRECTORY, OWNER), hexdigest(wanted["token"]), 0o600)
    ran = host.run(command(DIRECTORY, parameters["lifetime"]), timeout=60)
    if not ran.ok:
        said = last_lines(host, UNIT, 3, [wanted["token"]])
        stop(host, "", check_mode=False)
        raise ShareError(
            f"{UNIT} did not start ({said[-1] if said else ran.summary}), expected it to serve on "
            f"{wanted['address']} port {wanted['port']}: check that the fabric is up on this node and that nothing "
            "else uses the port"
        )
    return result


def hexdigest(text: str) -> str:
    """The SHA-256 of a text; of the token, it tells whose share it is and not the token."""
    return hashlib.sha256(text.encode()).hexdigest()


def stop(host: Host, token: str, check_mode: bool) -> dict[str, Any]:
    """Share no longer, and leave nothing of it behind; with a token, only where the share has that one."""
    owner = host.read_text(os.path.join(DIRECTORY, OWNER))
    if token and owner is not None and not hmac.compare_digest(owner, hexdigest(token)):
        return {"changed": False}
    runs = unit_state(host, UNIT).load != "not-found"
    left = os.path.isdir(DIRECTORY)
    if not check_mode:
        if runs:
            ended = host.run(["systemctl", "stop", UNIT], timeout=30)
            host.run(["systemctl", "reset-failed", UNIT], timeout=15)
            if not ended.ok and unit_state(host, UNIT).load != "not-found":
                raise ShareError(f"{UNIT} does not stop ({ended.summary}): see `systemctl status {UNIT}`")
        shutil.rmtree(DIRECTORY, ignore_errors=True)
    return {"changed": runs or left}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "address": {"type": "str"},
            "port": {"type": "int", "default": 29610},
            "directories": {"type": "list", "elements": "path"},
            "token": {"type": "str", "no_log": True},
            "lifetime": {"type": "int", "default": 21600},
            "idle": {"type": "int", "default": 900},
            "connections": {"type": "int", "default": 256},
            "peers": {"type": "list", "elements": "str", "default": []},
        },
        required_if=[("state", "started", ("address", "directories", "token"))],
        supports_check_mode=True,
    )
    parameters, host = module.params, Host()
    try:
        if parameters["state"] == "started":
            result = start(host, parameters, module.check_mode)
        else:
            result = stop(host, parameters["token"] or "", module.check_mode)
    except ShareError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or DIRECTORY} cannot be used ({error.strerror}): check permissions and free space "
            "below /run"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
