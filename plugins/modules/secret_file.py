#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: secret_file
short_description: Store a secret in a file that only root can read
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Makes a random secret or an SSH key where there is none, or writes the given one, with mode 0600 and owner root.
  - A secret that is there stays unless O(content) gives another one. The secret never leaves the module.
options:
  path:
    description: The file. Its directory is made where it is missing, with mode 0755.
    type: path
    required: true
  content:
    description: >-
      The secret to write. Without it a secret that is there is kept, and a random one is made where
      there is none.
    type: str
  kind:
    description:
      - V(ssh_key) is an Ed25519 private key without a passphrase, as OpenSSH writes it. O(prefix) and O(bytes) do not
        matter then.
    type: str
    choices: [random, ssh_key]
    default: random
  prefix:
    description: Text before the secret, for files that name it, as C(VLLM_API_KEY=).
    type: str
    default: ""
  bytes:
    description: Random bytes of a secret that is made; it is written in hexadecimal, two digits a byte.
    type: int
    default: 32
attributes:
  check_mode:
    description: Reports whether the file would be written or its mode corrected.
    support: full
  diff_mode:
    description: A secret has no diff.
    support: none
"""

EXAMPLES = r"""
- name: Create the cluster token
  firstlight.cluster.secret_file:
    path: /etc/firstlight/cluster.token

- name: Create the ranks' key
  firstlight.cluster.secret_file:
    path: /etc/firstlight/mpi.key
    kind: ssh_key
"""

RETURN = r"""
exists:
  description: Whether the file is there now. False only in check mode.
  type: bool
  returned: success
differs:
  description: >-
    Whether the file was not as wanted: what C(changed) is too, for a task that asks in check mode and is no
    change itself.
  type: bool
  returned: success
"""

import os
import secrets
import stat
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.durable import locked
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file

SHORTEST = 16
MODE = 0o600
DIRECTORY_MODE = 0o755
BEGIN = "-----BEGIN OPENSSH PRIVATE KEY-----"
END = "-----END OPENSSH PRIVATE KEY-----"


class SecretError(Exception):
    """Why the secret cannot be kept, for the operator; never says the secret."""


def read(path: str) -> str | None:
    """The file's text; None when it is not there."""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise SecretError(f"{path} is not text, expected one line: remove it to have a new secret generated") from error


def wanted(current: str | None, parameters: dict[str, Any]) -> str:
    """The text the file must have."""
    prefix, content, path = parameters["prefix"], parameters["content"], parameters["path"]
    if content is not None:
        secret = content.strip()
        if len(secret) < SHORTEST or any(character.isspace() for character in secret):
            raise SecretError(
                f"the secret given for {path} has {len(secret)} characters, expected at least {SHORTEST} "
                "without spaces: give a longer one, or none to have one generated"
            )
        return f"{prefix}{secret}"
    if current is None or not current.strip():
        return f"{prefix}{secrets.token_hex(parameters['bytes'])}"
    if not current.startswith(prefix) or len(current.strip()) < len(prefix) + SHORTEST:
        raise SecretError(
            f"{path} is there but does not hold a secret of at least {SHORTEST} characters"
            + (f" after {prefix!r}" if prefix else "")
            + ": correct it, or remove it to have a new one generated"
        )
    return current


def is_key(text: str) -> bool:
    """Whether this is a private key as OpenSSH writes it."""
    lines = text.strip().splitlines()
    return len(lines) > 2 and lines[0] == BEGIN and lines[-1] == END


def wanted_key(current: str | None, parameters: dict[str, Any]) -> str | None:
    """The key the file must have; None where one must be made."""
    content, path = parameters["content"], parameters["path"]
    if content is not None:
        if not is_key(content):
            raise SecretError(
                f"the value given for {path} is not a private key of OpenSSH: give one, or none to have one generated"
            )
        return f"{content.strip()}\n"
    if current is None or not current.strip():
        return None
    if not is_key(current):
        raise SecretError(f"{path} is there but is not a private key of OpenSSH: remove it to have a new one generated")
    return current


def make_key(host: Host) -> str:
    """A new key, made in a directory of its own that nobody else can look into."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/key"
        result = host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "firstlight", "-f", path])
        if not result.ok:
            raise SecretError(f"no SSH key can be made ({result.summary}): install openssh-client on this host")
        return str(read(path))


def converge(parameters: dict[str, Any], check_mode: bool, host: Host) -> dict[str, Any]:
    """Keep, make or write the secret; of two who make one at once, the second keeps the first one's."""
    if check_mode:
        return _converge(parameters, check_mode, host)
    folder = os.path.dirname(parameters["path"])
    if not os.path.isdir(folder):
        # Two nodes may have their secrets made here at once.
        os.makedirs(folder, exist_ok=True)
        # Whatever the umask: files in it are read by others, secrets have a mode of their own.
        os.chmod(folder, DIRECTORY_MODE)
    with locked(folder):
        return _converge(parameters, check_mode, host)


def _converge(parameters: dict[str, Any], check_mode: bool, host: Host) -> dict[str, Any]:
    path = parameters["path"]
    current = read(path)
    text = wanted_key(current, parameters) if parameters["kind"] == "ssh_key" else wanted(current, parameters)
    if text is not None and text == current:
        found = os.stat(path)
        loose = stat.S_IMODE(found.st_mode) != MODE or found.st_uid != os.geteuid() or found.st_gid != os.getegid()
        if loose and not check_mode:
            os.chown(path, os.geteuid(), os.getegid())
            os.chmod(path, MODE)
        return {"changed": loose, "differs": loose, "exists": True}
    if not check_mode:
        write_file(path, make_key(host) if text is None else text, MODE)
    return {"changed": True, "differs": True, "exists": current is not None or not check_mode}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "content": {"type": "str", "no_log": True},
            "kind": {"type": "str", "choices": ["random", "ssh_key"], "default": "random"},
            "prefix": {"type": "str", "default": ""},
            "bytes": {"type": "int", "default": 32},
        },
        supports_check_mode=True,
    )
    try:
        result = converge(module.params, module.check_mode, Host())
    except SecretError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{module.params['path']} cannot be written ({error.strerror}), expected a directory root "
            "can write to: "
            "run with become"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
