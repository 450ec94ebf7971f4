#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_key
short_description: Keep an SSH key in a file only root can read
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Makes an Ed25519 key without a passphrase where there is none, or writes the given one, with mode 0600 and owner
    root.
  - A key that is there stays unless O(content) gives another one. The key never leaves the module.
options:
  path:
    description: The file of the private key. Its directory must be there.
    type: path
    required: true
  content:
    description: >-
      The private key to write, as OpenSSH writes it. Without it a key that is there is kept, and one is made where
      there is none.
    type: str
attributes:
  check_mode:
    description: Says whether the file would be written or its mode corrected.
    support: full
  diff_mode:
    description: A key has no diff.
    support: none
"""

EXAMPLES = r"""
- name: Make the ranks' key
  firstlight.cluster.ssh_key:
    path: /etc/firstlight/mpi.key
"""

RETURN = r"""
exists:
  description: Whether the file is there now. False only in check mode.
  type: bool
  returned: success
"""

import os
import stat
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file

MODE = 0o600
BEGIN = "-----BEGIN OPENSSH PRIVATE KEY-----"
END = "-----END OPENSSH PRIVATE KEY-----"


class KeptKeyError(Exception):
    """Why the key cannot be kept, for the operator; never says the key."""


def is_key(text: str) -> bool:
    """Whether this is a private key as OpenSSH writes it."""
    lines = text.strip().splitlines()
    return len(lines) > 2 and lines[0] == BEGIN and lines[-1] == END


def read(path: str) -> str | None:
    """The file's text; None when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def wanted(current: str | None, content: str | None, path: str) -> str | None:
    """The text the file must have; None where one must be made."""
    if content is not None:
        if not is_key(content):
            raise KeptKeyError(
                f"what is given for {path} is no private key of OpenSSH's: give one, or none to have one made"
            )
        return content.strip() + "\n"
    if current is None or not current.strip():
        return None
    if not is_key(current):
        raise KeptKeyError(f"{path} is there but is no private key of OpenSSH's: remove it to have a new one made")
    return current


def make(host: Host) -> str:
    """A new key, made in a directory of its own that nobody else can look into."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/key"
        result = host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "firstlight", "-f", path])
        if not result.ok:
            raise KeptKeyError(f"no SSH key can be made ({result.summary}): install openssh-client on this host")
        return str(read(path))


def converge(host: Host, path: str, content: str | None, check_mode: bool) -> dict[str, Any]:
    """Keep, make or write the key."""
    current = read(path)
    text = wanted(current, content, path)
    if text is not None and text == current:
        found = os.stat(path)
        loose = stat.S_IMODE(found.st_mode) != MODE or found.st_uid != os.geteuid() or found.st_gid != os.getegid()
        if loose and not check_mode:
            os.chown(path, os.geteuid(), os.getegid())
            os.chmod(path, MODE)
        return {"changed": loose, "exists": True}
    if not check_mode:
        write_file(path, make(host) if text is None else text, MODE)
    return {"changed": True, "exists": current is not None or not check_mode}


def main() -> None:
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "content": {"type": "str", "no_log": True}},
        supports_check_mode=True,
    )
    try:
        result = converge(Host(), module.params["path"], module.params["content"], module.check_mode)
    except KeptKeyError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{module.params['path']} cannot be kept ({error.strerror}), expected a directory root can write to: "
            "make its directory first and run with become"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
