#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `endpoint_secrets`: the endpoint's keys and certificate on its host. Its other half is the action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_secrets
short_description: Manage the endpoint's keys and certificate, and copy what clients need to the controller
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Keeps one file a key with mode 0600 below C(keys), makes random keys where there are none, and takes the files of
    keys away that are not listed any more. Writes for nginx what tells a key's name by its value, and the engine's own
    key that nginx sends on instead.
  - Makes an authority of the cluster's own once, and signs a certificate for O(names) with it. The certificate is made
    anew when it nears its end or the names change; the authority stays, so that clients need not be told.
  - Or puts a given certificate and its key in place, after a look at whether they belong together and still hold.
  - nginx knows of it after a reload. Until then a file C(reload-pending) is there, also after a run that was cut off.
  - An action of the same name brings the keys and the authority's certificate to the controller, into files that only
    their owner can read, and takes files of other keys away there. A host that answers with other keys than O(keys),
    with something that is no key, or with a certificate that is none, is not believed, and nothing is written there.
  - The task must have C(no_log), because Ansible shows what modules answer when it is asked to be verbose. What went
    wrong is in RV(problem), and what changes in RV(lines), for a task that may be shown. No other value says a key.
options:
  state:
    description:
      - With V(absent) removes all of it, also what nginx keeps, and the files of the controller where the host had the
        endpoint.
    type: str
    choices: [present, absent]
    default: present
  directory:
    description: Where the files are on the host.
    type: path
    default: /etc/firstlight/endpoint
  keys:
    description: The names of all keys. Any other one is revoked.
    type: list
    elements: str
    default: []
  key_values:
    description: Values by name, for instance from Ansible Vault. They win over those on the host.
    type: dict
    default: {}
  engine_key_path:
    description: The environment file with the engine's key, C(VLLM_API_KEY=).
    type: path
    default: /etc/firstlight/server.env
  names:
    description: Names and addresses that clients call. Required with O(state=present).
    type: list
    elements: str
  required_names:
    description: Which of them a given certificate must be for.
    type: list
    elements: str
    default: []
  days:
    description: How long a certificate of our own holds.
    type: int
    default: 397
  renew_days:
    description: How many days before its expiry it is renewed.
    type: int
    default: 30
  certificate:
    description: A given certificate in PEM, followed by those of its issuers.
    type: str
  certificate_key:
    description: Its key in PEM, without a password.
    type: str
  cluster:
    description: What the cluster is called on the controller. The name of the inventory's directory, when it is empty.
    type: str
    default: ""
  client_directory:
    description: >-
      Where the files go on the controller. Empty for C(firstlight/CLUSTER) below C(XDG_STATE_HOME), which is
      C(~/.local/state) where it is not set.
    type: str
    default: ""
attributes:
  check_mode:
    description: Reports what would be created, changed and revoked.
    support: full
  diff_mode:
    description: A secret has no diff; RV(lines) says what changes.
    support: none
"""

EXAMPLES = r"""
- name: Manage the keys of two clients and the certificate
  firstlight.cluster.endpoint_secrets:
    keys: [alice, ci]
    names: [llm.example.org, 192.0.2.10]
  no_log: true
  register: kept
"""

RETURN = r"""
lines:
  description: What was, or would be, made, changed, revoked or removed, and why.
  type: list
  elements: str
  returned: success
  sample: ["key alice is made", "certificate: there is no certificate"]
unread:
  description: Whether nginx has something to read, or would have.
  type: bool
  returned: with O(state=present)
not_after:
  description: When the certificate ends. Empty where check mode made none.
  type: str
  returned: with O(state=present)
  sample: "2027-12-18T03:03:13+00:00"
days_left:
  description: Whole days until then.
  type: int
  returned: with O(state=present)
certificate_names:
  description: What the certificate is for.
  type: list
  elements: str
  returned: with O(state=present)
own:
  description: Whether it is one of the cluster's own authority.
  type: bool
  returned: with O(state=present)
client_directory:
  description: Where the files are on the controller.
  type: str
  returned: success
problem:
  description: Why something could not be stored or copied; empty if everything is in place.
  type: str
  returned: success
"""

import datetime
import os
import shutil
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint import certificate, keys
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.endpoint import (
    CA_CERTIFICATE_PATH,
    KEYS_DIRECTORY,
    PENDING_PATH,
    RUNTIME_DIRECTORY,
    SPOOL_DIRECTORY,
    UNIT,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.openssl import CertificateError
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host

ARGUMENTS: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "directory": {"type": "path", "default": "/etc/firstlight/endpoint"},
    "keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "key_values": {"type": "dict", "default": {}, "no_log": True},
    # A path, no secret.
    "engine_key_path": {"type": "path", "default": "/etc/firstlight/server.env", "no_log": False},
    # Without a default: with one it would always be there, and never be missed.
    "names": {"type": "list", "elements": "str"},
    "required_names": {"type": "list", "elements": "str", "default": []},
    "days": {"type": "int", "default": 397},
    "renew_days": {"type": "int", "default": 30},
    "certificate": {"type": "str"},
    "certificate_key": {"type": "str", "no_log": True},
    "cluster": {"type": "str", "default": ""},
    "client_directory": {"type": "str", "default": ""},
}


def keep(host: Host, parameters: dict[str, Any], check_mode: bool, now: datetime.datetime) -> dict[str, Any]:
    """Keep keys and certificate, and read what clients need; raises KeysError, CertificateError and ValueError."""
    directory = parameters["directory"]
    if not check_mode:
        make_directories(directory)
    same = {name: parameters[name] for name in ("directory", "engine_key_path")}
    kept = keys.converge(host, {**same, "names": parameters["keys"], "values": parameters["key_values"]}, check_mode)
    same = {name: parameters[name] for name in ("directory", "names", "required_names", "days", "renew_days")}
    given = {"certificate": parameters["certificate"], "key": parameters["certificate_key"]}
    held = certificate.converge(host, {**same, **given}, check_mode, now)
    lines = [f"key {name} is created, or gets a new value" for name in kept["made"]]
    lines += [f"key {name} is revoked" for name in kept["revoked"]]
    lines += [f"certificate: {reason}" for reason in held["reasons"]]
    changed = bool(kept["changed"] or held["changed"])
    found, authority = read(host, directory, parameters["keys"])
    return {
        "changed": changed,
        "lines": lines if lines or not changed else ["files that nginx reads, or their modes, differed"],
        "unread": changed or os.path.exists(os.path.join(directory, os.path.basename(PENDING_PATH))),
        **{name: held[name] for name in ("not_after", "days_left", "own")},
        "certificate_names": held["names"],
        "keys": found,
        "authority_pem": "" if parameters["certificate"] else authority,
    }


def make_directories(path: str) -> None:
    """Make a directory and those above it. Whatever the umask: others have files beside, and secrets their own mode."""
    former = os.umask(0o022)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(former)


def read(host: Host, directory: str, names: list[str]) -> tuple[dict[str, str], str]:
    """The keys that are there, by name, and the authority's certificate."""
    place = os.path.join(directory, os.path.basename(KEYS_DIRECTORY))
    found = {name: (host.read_text(os.path.join(place, os.path.basename(name))) or "").strip() for name in names}
    authority = host.read_text(os.path.join(directory, os.path.basename(CA_CERTIFICATE_PATH))) or ""
    return {name: value for name, value in found.items() if value}, authority


def remove(directory: str, check_mode: bool, root: str = "/") -> dict[str, Any]:
    """Remove the files, and what nginx has beside them; whether the endpoint was this host's."""
    beside = (os.path.join(root, "run", RUNTIME_DIRECTORY), os.path.join(root, "var/cache", SPOOL_DIRECTORY))
    there = [path for path in (directory, *beside) if os.path.isdir(path)]
    for path in () if check_mode else there:
        if os.path.islink(path):
            os.unlink(path)
        else:
            shutil.rmtree(path)
    was_here = os.path.exists(os.path.join(root, "etc/systemd/system", UNIT))
    return {"changed": bool(there), "lines": [f"{path} is removed" for path in there], "was_here": was_here}


def main() -> None:
    """Keep or remove, and tell."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS, required_if=[("state", "present", ["names"])], supports_check_mode=True
    )
    directory = module.params["directory"]
    try:
        if module.params["state"] == "absent":
            result = remove(directory, module.check_mode)
        else:
            result = keep(Host(), module.params, module.check_mode, datetime.datetime.now(datetime.timezone.utc))
    except (keys.KeysError, CertificateError, ValueError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        place = error.filename or directory
        module.fail_json(
            msg=f"{place} cannot be written to ({error.strerror}), expected a directory owned by root: run with become"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
