#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: container_image
short_description: Bring an image by its digest and check what is in it
version_added: "0.1.0"
author: Firstlight contributors
description:
  - Pulls an image by digest when the local Docker does not have it, after making sure that the disk has
    room for it.
  - Then asks the Python inside the image which versions it has of the distributions that are required,
    before anything
    is launched from it.
  - Keeps a record on the host that the contents were found right, so that a later run does not take an image
    that was pulled and then refused for a good one. A failed check removes the record of that image.
options:
  reference:
    description: The image as C(repository@sha256:digest).
    type: str
    required: true
  requires:
    description: Python distributions the image must have, with their versions.
    type: dict
    default: {}
  size_bytes:
    description: >-
      Size of the unpacked image, V(0) when it is not known. With a size the free space is checked
      first.
    type: int
    default: 0
  pull_timeout:
    description: Seconds after which a download counts as stuck.
    type: int
    default: 7200
  proof:
    description: >-
      File that is written when the image has what it must have, and removed when it has not and the file is
      about this image. Left alone when nothing is required.
    type: path
attributes:
  check_mode:
    description: >-
      Says whether the image would be pulled and the record written; an image that is there is still checked.
    support: full
  diff_mode:
    description: Shows the reference and the record before and after.
    support: full
"""

EXAMPLES = r"""
- name: Bring the engine's image
  firstlight.cluster.container_image:
    reference: registry.example/vllm@sha256:0f3b6c5c2f4a0a5a6d6a8f6f2f7b1f0c1d2e3f4a5b6c7d8e9f00112233445566
    requires:
      vllm: 0.32.0
      ray: 2.60.0
    size_bytes: 21000000000
    proof: /var/lib/firstlight/image.proof
"""

RETURN = r"""
versions:
  description: >-
    What the image has of the required distributions. Empty in check mode when the image is not there
    yet.
  type: dict
  returned: success
  sample: {"ray": "2.60.0", "vllm": "0.32.0"}
pulled:
  description: Whether the image was, or in check mode would be, downloaded.
  type: bool
  returned: success
"""

import contextlib
import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.differences import differences
from ansible_collections.firstlight.cluster.plugins.module_utils.core.image import (
    INSPECT_SCRIPT,
    content_problems,
    has_digest,
    names_image,
    no_room,
    proof_text,
    pull_failure,
    split_reference,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file


class ImageError(Exception):
    """Why the image cannot be used, for the operator."""


def present(host: Host, reference: str, digest: str, check_mode: bool = False) -> bool:
    """Whether the local Docker has the image; in check mode the engine itself may still be to come."""
    result = host.run(["docker", "image", "inspect", "--format={{json .RepoDigests}}", reference], timeout=60)
    if result.ok:
        return has_digest(json.loads(result.stdout or "[]") or [], digest)
    if check_mode or "no such image" in result.stderr.lower():
        return False
    raise ImageError(
        f"Docker does not answer ({result.summary}), expected a running engine: run container_runtime first"
    )


def data_root(host: Host) -> str:
    """Where Docker keeps its images."""
    result = host.run(["docker", "info", "--format={{.DockerRootDir}}"], timeout=60)
    return result.stdout.strip() if result.ok and result.stdout.strip() else "/var/lib/docker"


def pull(host: Host, reference: str, digest: str, timeout: int) -> None:
    """Download the image and make sure that it is the one that was asked for."""
    result = host.run(["docker", "pull", "--quiet", reference], timeout=timeout)
    if not result.ok:
        root = data_root(host)
        output = f"{result.stdout}\n{result.stderr}\n{result.problem}"
        raise ImageError(pull_failure(reference, root, output, host.disk_free(root)))
    if not present(host, reference, digest):
        raise ImageError(
            f"image {reference} was pulled but Docker lists no image with digest {digest}: "
            "remove it (docker image rm) and run again"
        )


def versions(host: Host, reference: str, requires: dict[str, str]) -> dict[str, str | None]:
    """What the image's own Python finds; nothing else of the image is run, and without a network."""
    argv = [
        "docker",
        "run",
        "--rm",
        "--network=none",
        "--pull=never",
        "--entrypoint=python3",
        reference,
        "-c",
    ]
    result = host.run([*argv, INSPECT_SCRIPT, *sorted(requires)], timeout=300)
    if not result.ok:
        raise ImageError(
            f"image {reference} cannot be asked for its contents ({result.summary}), expected a Python 3 "
            "in it: "
            "check that it is the engine's image and that its architecture is this host's"
        )
    found: dict[str, str | None] = json.loads(result.stdout.strip().splitlines()[-1])
    return found


def checked(host: Host, reference: str, requires: dict[str, str]) -> dict[str, str | None]:
    """What the image has, when that is what it must have."""
    found = versions(host, reference, requires)
    problems = content_problems(reference, found, requires)
    if problems:
        raise ImageError("; ".join(problems))
    return found


def proof_differs(host: Host, path: str, content: str) -> bool:
    """Whether the record is another one, or not as a plan wants it to be."""
    return bool(differences({"files": {path: root_file(content)}}, {"files": {path: host.file_state(path)}}))


def write_proof(path: str, content: str) -> None:
    """Put the record in place, and the directory it is in."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        write_file(path, content, 0o644)
    except OSError as error:
        raise ImageError(
            f"the record of the image's check cannot be written: {error}: make it writable for root"
        ) from error


def remove_proof(host: Host, path: str, reference: str) -> None:
    """Take away a record that calls this image good; that of another image is not in question."""
    if names_image(host.read_text(path) or "", reference):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def converge(host: Host, parameters: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring and check the image; what was found and whether anything was changed."""
    reference, requires = parameters["reference"], parameters["requires"]
    _, digest = split_reference(reference)
    pulled = not present(host, reference, digest, check_mode)
    if pulled:
        root = data_root(host)
        refusal = no_room(reference, root, parameters["size_bytes"], host.disk_free(root))
        if refusal:
            raise ImageError(refusal)
        if not check_mode:
            pull(host, reference, digest, parameters["pull_timeout"])
    proof = parameters["proof"] if requires else None
    found: dict[str, str | None] = {}
    if requires and not (pulled and check_mode):
        try:
            found = checked(host, reference, requires)
        except ImageError:
            if proof and not check_mode:
                remove_proof(host, proof, reference)
            raise
    before, after = "" if pulled else f"{reference}\n", f"{reference}\n"
    recorded = False
    if proof:
        content = proof_text(reference, requires)
        recorded = proof_differs(host, proof, content)
        before, after = before + (host.read_text(proof) or ""), after + content
        if recorded and not check_mode:
            write_proof(proof, content)
    return {
        "changed": pulled or recorded,
        "pulled": pulled,
        "versions": found,
        "diff": {"before": before, "after": after},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "reference": {"type": "str", "required": True},
            "requires": {"type": "dict", "default": {}},
            "size_bytes": {"type": "int", "default": 0},
            "pull_timeout": {"type": "int", "default": 7200},
            "proof": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        result = converge(Host(), module.params, module.check_mode)
    except (ImageError, ValueError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
