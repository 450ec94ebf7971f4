#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: container_image
short_description: Provide an image by its digest, check its contents, and pass it on as a file
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Brings the pinned image to this host's Docker where it is missing, from its registry, or from an archive, after
    making sure that the disk has room for it, and gives it the name that it has on every node.
  - With O(recipe), the image is built on this host instead, from a base by its digest, packages of one day and wheels
    by their hashes.
  - With O(ray), an image that has no Ray gets one layer with it, and a name that says so.
  - Then asks the Python inside the image for the versions it must have, before anything is launched from it.
  - Keeps a record on the host that the contents were found right, with the id of the image, so that a later run does
    not take an image that was brought and then refused, or one that only has the name, for a good one.
  - For nodes that take the image from this one, writes it into a directory of its own, with a record of size and
    SHA-256, so that M(firstlight.cluster.peer_share) can share it and M(firstlight.cluster.model_snapshot) can fetch
    it. On a node that fetches, makes that directory ready, after making sure that its disks take the archive, what
    Docker unpacks of it, and the image. A file that an interrupted run left is used, one of another image is removed.
options:
  state:
    description: >-
      V(present) brings and checks the image, V(archived) writes the file of one that is here, V(receiving) makes the
      place for one that comes, V(unarchived) removes either.
    type: str
    choices: [present, archived, receiving, unarchived]
    default: present
  reference:
    description: >-
      The image as C(repository@sha256:digest). With O(recipe) the digest is the recipe's. Required with
      O(state=present).
    type: str
  name:
    description: The image's name on every node. Required for its file.
    type: str
  transfer:
    description: Directory in which the file of each image has one.
    type: path
    default: /var/lib/firstlight/transfer
  requires:
    description: >-
      Versions the image must have, by name: V(python), V(cuda), V(nccl), or a Python distribution.
    type: dict
    default: {}
  size_bytes:
    description: >-
      Size of the unpacked image, V(0) when it is not known. With a size the free space is checked
      first. With O(state=receiving) the size of the file that comes.
    type: int
    default: 0
  pull_timeout:
    description: Seconds after which a download counts as stuck.
    type: int
    default: 7200
  archive:
    description: >-
      File on this host to load the image from, as C(docker save) writes it, instead of pulling it. The digest of
      O(reference) is that of a manifest in it, or the image's id.
    type: path
  identity:
    description: >-
      Id that the image has on the node it comes from. The image is only taken from O(archive), and refused when its id
      is another one.
    type: str
  origin:
    description: Name of that node, for messages.
    type: str
    default: the head
  recipe:
    description: >-
      What the image is built from, as an entry of C(catalog/recipes) with the text of its lock. Empty has the image
      pulled or loaded. O(archive) is then that of the base, or of the finished image.
    type: dict
    default: {}
  build_wheels:
    description: Directory on this host with every wheel of the recipe's lock, for a host without a package index.
    type: path
  build_packages:
    description: Directory on this host with the recipe's packages and all they need, for a host without the archive.
    type: path
  build_index:
    description: Address of the package index that the wheels of the recipe come from, instead of pip's own.
    type: str
    default: ""
  ray:
    description: >-
      Version of Ray that is added when the image has none. What stands behind it after a V(_) is part of the image's
      name only, but for V(_metrics) and V(_serve), with which a Ray that a recipe brings is not enough. With
      O(identity) only the name follows from it, as the image is finished.
    type: str
    default: ""
  ray_lock:
    description: >-
      The text of the lock of what is added: Ray and all it needs beside what the image has, every wheel by its hash.
      Nothing else is installed. Required where Ray is added.
    type: str
    default: ""
  ray_wheels:
    description: Directory on this host with the wheels of O(ray_lock), for a host without a package index.
    type: path
  ray_index:
    description: Address of the package index, instead of the installer's own.
    type: str
    default: ""
  records:
    description: Directory of the records.
    type: path
    default: /var/lib/firstlight/images
attributes:
  check_mode:
    description: >-
      Reports whether the image would be provided and the record written; a present image is still checked.
    support: full
  diff_mode:
    description: Shows the record, or the directory of the file, before and after.
    support: full
"""

EXAMPLES = r"""
- name: Pull the engine image
  firstlight.cluster.container_image:
    reference: registry.example/vllm@sha256:0f3b6c5c2f4a0a5a6d6a8f6f2f7b1f0c1d2e3f4a5b6c7d8e9f00112233445566
    requires:
      vllm: 0.32.0
      ray: 2.60.0
      nccl: 2.30.7
      cuda: 13.0.3
      python: "3.12"
    size_bytes: 21000000000
    ray: 2.60.0
    ray_lock: "{{ lookup('ansible.builtin.file', 'ray-2.60.0-aarch64-py312.txt') }}"

- name: Load the image from the head
  firstlight.cluster.container_image:
    reference: registry.example/vllm@sha256:0f3b6c5c2f4a0a5a6d6a8f6f2f7b1f0c1d2e3f4a5b6c7d8e9f00112233445566
    requires:
      vllm: 0.32.0
    archive: /var/lib/firstlight/transfer/image/image.tar
    identity: sha256:8f1a8f6f2f7b1f0c1d2e3f4a5b6c7d8e9f001122334455660f3b6c5c2f4a0a5a
    origin: spark0

- name: Save the image to a file
  firstlight.cluster.container_image:
    state: archived
    name: firstlight/engine:sha256-0f3b6c5c2f4a0a5a6d6a8f6f2f7b1f0c1d2e3f4a5b6c7d8e9f00112233445566
"""

RETURN = r"""
name:
  description: What the image is called on every node.
  type: str
  returned: with O(state=present)
id:
  description: The image's id. Empty in check mode when the image is not there yet.
  type: str
  returned: with O(state=present)
how:
  description: How it came, or in check mode would come.
  type: str
  returned: with O(state=present)
  sample: present, named, pulled, loaded, built
versions:
  description: >-
    What the image has of the required versions. Empty in check mode when the image is not there
    yet.
  type: dict
  returned: with O(state=present)
  sample: {"ray": "2.60.0", "vllm": "0.32.0"}
directory:
  description: Where the file and its record are, or are to come.
  type: str
  returned: for the image's file
path:
  description: The file.
  type: str
  returned: for the image's file
repository:
  description: What the record calls it.
  type: str
  returned: for the image's file
revision:
  description: Which one it is, the first 40 digits of the image's id. Empty where that is not known.
  type: str
  returned: for the image's file
bytes:
  description: Its size, 0 where there is none.
  type: int
  returned: for the image's file
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file
from ansible_collections.firstlight.cluster.plugins.module_utils.image.bring import Bringer
from ansible_collections.firstlight.cluster.plugins.module_utils.image.contents import content_problems
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import (
    RECORDS,
    read_record,
    record_path,
    record_text,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image_transfer import TRANSFER, keep_archive
from ansible_collections.firstlight.cluster.plugins.module_utils.image.store import (
    ImageError,
    identity,
    inspect,
    versions,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.state import (
    host_kinds,  # noqa: F401 - registers the kinds that are compared here
)
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import differences, root_file


def checked(host: Host, bringer: Bringer, requires: dict[str, str]) -> dict[str, str | None]:
    """What the image has, when that is what it must have."""
    if not requires:
        return {}
    found = versions(host, bringer.name, requires)
    problems = content_problems(bringer.reference, found, requires)
    if problems:
        raise ImageError("; ".join(problems))
    return found


def record_differs(host: Host, path: str, content: str) -> bool:
    """Whether the record is another one, or not as everybody may read it."""
    return bool(differences({"files": {path: root_file(content)}}, {"files": {path: host.file_state(path)}}))


def write_record(path: str, content: str) -> None:
    """Put the record in place, and the directory it is in."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        write_file(path, content, 0o644)
    except OSError as error:
        raise ImageError(
            f"the record of the image's check cannot be written: {error}: make room and let root write there"
        ) from error


def converge(host: Host, parameters: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring and check the image; what was found and whether anything was changed."""
    bringer = Bringer(host, parameters, check_mode)
    requires = parameters["requires"]
    record = record_path(bringer.name, parameters["records"])
    former = host.read_text(record)
    how = bringer.bring()
    entry = inspect(host, bringer.name, check_mode)
    absent = check_mode and (how != "present" or entry is None)  # under this name, so far
    found: dict[str, str | None] = {}
    if not absent:
        try:
            found = checked(host, bringer, requires)
        except ImageError:
            if read_record(former) is not None and not check_mode:
                os.unlink(record)
            raise
    own = "" if absent else identity(entry)
    content = record_text(bringer.name, bringer.reference, own, requires)
    recorded = absent or record_differs(host, record, content)
    if recorded and not check_mode:
        write_record(record, content)
    return {
        "changed": how != "present" or recorded,
        "name": bringer.name,
        "id": own,
        "how": how,
        "versions": found,
        "diff": {"before": former or "", "after": content},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["present", "archived", "receiving", "unarchived"],
                "default": "present",
            },
            "reference": {"type": "str"},
            "name": {"type": "str"},
            "transfer": {"type": "path", "default": TRANSFER},
            "requires": {"type": "dict", "default": {}},
            "size_bytes": {"type": "int", "default": 0},
            "pull_timeout": {"type": "int", "default": 7200},
            "archive": {"type": "path"},
            "identity": {"type": "str"},
            "origin": {"type": "str", "default": "the head"},
            "recipe": {"type": "dict", "default": {}},
            "build_wheels": {"type": "path"},
            "build_packages": {"type": "path"},
            "build_index": {"type": "str", "default": ""},
            "ray": {"type": "str", "default": ""},
            "ray_lock": {"type": "str", "default": ""},
            "ray_wheels": {"type": "path"},
            "ray_index": {"type": "str", "default": ""},
            "records": {"type": "path", "default": RECORDS},
        },
        required_if=[
            ("state", "present", ("reference",)),
            *[("state", state, ("name",)) for state in ("archived", "receiving", "unarchived")],
        ],
        supports_check_mode=True,
    )
    bring = converge if module.params["state"] == "present" else keep_archive
    try:
        result = bring(Host(), module.params, module.check_mode)
    except (ImageError, ValueError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
