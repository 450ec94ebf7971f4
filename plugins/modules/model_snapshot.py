#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: model_snapshot
short_description: Bring a model's files at one revision and prove every byte
version_added: "0.1.0"
author: Firstlight contributors
description:
  - Lists the files of a revision on a model hub, fetches what is missing or wrong, resumes what was cut
    off, compares
    size and digest of each file, and writes a record beside them that M(firstlight.cluster.observe) reads.
  - A file whose size and time are as recorded when it was proven is not read again.
  - Holds a lock on C(.firstlight-lock) in the directory meanwhile, so that no second run writes there.
options:
  endpoint:
    description: The hub.
    type: str
    default: https://huggingface.co
  repository:
    description: The model as C(organisation/name).
    type: str
    required: true
  revision:
    description: The commit, 40 hexadecimal digits.
    type: str
    required: true
  directory:
    description: Where the files go. It is made when it is missing.
    type: path
    required: true
  token_path:
    description: >-
      A file on this host with an access token for the hub, for gated models. It is sent to the hub
      only.
    type: path
  workers:
    description: Files fetched at the same time.
    type: int
    default: 4
attributes:
  check_mode:
    description: Says which files would be fetched.
    support: full
  diff_mode:
    description: Shows the files to fetch with their sizes.
    support: full
"""

EXAMPLES = r"""
- name: Bring the model
  firstlight.cluster.model_snapshot:
    repository: example/tiny
    revision: 0123456789abcdef0123456789abcdef01234567
    directory: /srv/models/tiny
"""

RETURN = r"""
fetched:
  description: Files that were, or in check mode would be, fetched.
  type: list
  elements: str
  returned: success
  sample: ["model-00001-of-00002.safetensors"]
removed:
  description: Files of an earlier revision that were, or in check mode would be, removed.
  type: list
  elements: str
  returned: success
bytes:
  description: Their size together.
  type: int
  returned: success
"""

import contextlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.hub import (
    RemoteFile,
    check_path,
    check_request,
    plan_lines,
    to_fetch,
    total,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.snapshot import (
    RECORD_NAME,
    parse_record,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.words import gigabytes
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file
from ansible_collections.firstlight.cluster.plugins.module_utils.hub_client import (
    HubClient,
    HubError,
    digest_file,
    make_directories,
    only_run,
)


def read_token(path: str | None) -> str:
    """The access token; empty without a file."""
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise HubError(
            f"the access token in {path} cannot be read ({reason}): put the token there, readable for root, "
            "or leave model_weights_token_path empty"
        ) from error


def read_record(host: Host, directory: str) -> dict[str, Any]:
    """What an earlier run proved; nothing when there is no usable record."""
    text = host.read_text(os.path.join(directory, RECORD_NAME))
    with contextlib.suppress(ValueError):
        return parse_record(text or "")
    return {"repository": "", "revision": "", "files": {}}


def stats(host: Host, directory: str, paths: list[str]) -> dict[str, tuple[int, int]]:
    """Size and time of those of the files that are there."""
    found = {path: host.size_and_mtime(os.path.join(directory, path)) for path in paths}
    return {path: state for path, state in found.items() if state is not None}


def wrong_files(directory: str, files: list[RemoteFile], workers: int) -> list[RemoteFile]:
    """Those whose bytes are not what the hub lists."""
    with ThreadPoolExecutor(max_workers=workers) as pool:
        digests = pool.map(lambda item: digest_file(os.path.join(directory, item.path), item), files)
        return [item for item, digest in zip(files, digests, strict=True) if digest != item.digest]


def make_record(host: Host, parameters: Mapping[str, Any], files: list[RemoteFile]) -> dict[str, Any]:
    """What is proven now."""
    entries = {}
    for item in sorted(files, key=lambda one: one.path):
        found = host.size_and_mtime(os.path.join(parameters["directory"], item.path))
        if found is None:
            raise HubError(f"{item.path} is gone again from {parameters['directory']}: keep others out of it")
        if found[0] != item.size:
            raise HubError(
                f"{item.path} has {found[0]} bytes in {parameters['directory']}, expected {item.size} as the hub "
                "lists it: keep others out of it and run again"
            )
        entries[item.path] = {"size": found[0], "mtime_ns": found[1], "digest": item.digest}
    return {"repository": parameters["repository"], "revision": parameters["revision"], "files": entries}


def write_record(directory: str, record: Mapping[str, Any]) -> None:
    """Put the record in place in one step."""
    text = json.dumps(record, indent=1, sort_keys=True) + "\n"
    write_file(os.path.join(directory, RECORD_NAME), text, 0o644)


def fetch_all(client: HubClient, directory: str, files: list[RemoteFile], workers: int) -> None:
    """Fetch the files, the largest first; the first failure ends it once the running ones are done."""
    ordered = sorted(files, key=lambda item: item.size, reverse=True)
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        for done in [pool.submit(client.fetch, item, directory) for item in ordered]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def check_room(host: Host, directory: str, fetch: list[RemoteFile]) -> None:
    """Refuse before the first byte when the disk cannot take all of them."""
    partial = stats(host, directory, [f"{item.path}.partial" for item in fetch])
    needed = total(fetch) - sum(size for size, _ in partial.values())
    free = host.disk_free(directory)
    if needed > free:
        raise HubError(
            f"the model needs {gigabytes(needed)} more below {directory}, {gigabytes(free)} are free: "
            "free space there or choose another model_weights_directory"
        )


def stale_files(record: Mapping[str, Any], files: list[RemoteFile]) -> list[str]:
    """Files an earlier revision brought and this one lacks: an engine would load them too."""
    listed = {item.path for item in files}
    return [check_path(path) for path in sorted(record["files"]) if path not in listed]


def converge(host: Host, client: HubClient, parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Make the directory hold exactly the proven files of the revision."""
    files = client.files()
    if check_mode:
        return bring(host, client, parameters, files, check_mode=True)
    make_directories(parameters["directory"], "")
    with only_run(parameters["directory"]):
        return bring(host, client, parameters, files, check_mode=False)


def bring(
    host: Host, client: HubClient, parameters: Mapping[str, Any], files: list[RemoteFile], check_mode: bool
) -> dict[str, Any]:
    """Look at what is there, and fetch, remove and record what differs; the caller holds the lock."""
    directory, workers = parameters["directory"], max(1, parameters["workers"])
    record = read_record(host, directory)
    present = stats(host, directory, [item.path for item in files])
    fetch, verify = to_fetch(files, present, record["files"])
    fetch += wrong_files(directory, verify, workers)
    stale = stale_files(record, files)
    check_room(host, directory, fetch)
    if not check_mode:
        fetch_all(client, directory, fetch, workers)
        for path in stale:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, path))
    if check_mode and fetch:
        recorded = False
    else:
        proven = make_record(host, parameters, files)
        recorded = proven == record
        if not recorded and not check_mode:
            write_record(directory, proven)
    return {
        "changed": bool(fetch or stale or not recorded),
        "fetched": sorted(item.path for item in fetch),
        "removed": stale,
        "bytes": total(fetch),
        "diff": {"before": "".join(f"{path}\n" for path in stale), "after": plan_lines(fetch)},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "repository": {"type": "str", "required": True},
            "revision": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "token_path": {"type": "path", "no_log": False},
            "workers": {"type": "int", "default": 4},
        },
        supports_check_mode=True,
    )
    parameters = module.params
    try:
        check_request(parameters["endpoint"], parameters["repository"], parameters["revision"])
        client = HubClient(
            parameters["endpoint"],
            parameters["repository"],
            parameters["revision"],
            token=read_token(parameters["token_path"]),
        )
        result = converge(Host(), client, parameters, module.check_mode)
    except (HubError, ValueError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or parameters['directory']} cannot be used ({error.strerror}): check "
            "permissions, "
            "free space and that it is a directory of its own"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
