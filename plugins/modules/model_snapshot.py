#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: model_snapshot
short_description: Bring a model's files at one revision and prove every byte
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Lists the files of a revision on a model hub, on another node that shares it (M(firstlight.cluster.peer_share)) or
    in a directory, brings what is missing or wrong, resumes what was cut off, compares size and digest of each file,
    and writes a record beside them that M(firstlight.cluster.observe) reads.
  - A file whose size and time are as recorded when it was proven is not read again.
  - Its action plugin shows how far it is, with rate and time left, and outlives a connection that breaks.
  - Holds a lock on C(.firstlight-lock) in the directory meanwhile, so that no second run writes there.
options:
  endpoint:
    description: The hub.
    type: str
    default: https://huggingface.co
  source:
    description:
      - A directory on this host with the files, in place of the hub. It is a plain directory, one with a record of this
        module, or a Hugging Face cache (the cache, one model of it, or one snapshot).
    type: path
  peer:
    description:
      - Whether O(endpoint) is another node that shares. No proxy is used then, and check mode does not ask it.
    type: bool
    default: false
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
  token:
    description: The token itself, in place of O(token_path), as another node that shares asks for it.
    type: str
  rehash:
    description: Whether every file is read and compared, also those whose size and time are as recorded.
    type: bool
    default: false
  workers:
    description: Files fetched at the same time.
    type: int
    default: 4
  wait:
    description:
      - Seconds to wait for the result. The work then goes on, and the module returns C(unfinished) and C(progress).
        With V(0) it waits to the end. The action plugin sets it.
    type: float
    default: 0
  attach:
    description: Whether to wait for work that an earlier call began. The action plugin sets it.
    type: bool
    default: false
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

- name: Bring the model from a disk
  firstlight.cluster.model_snapshot:
    repository: example/tiny
    revision: 0123456789abcdef0123456789abcdef01234567
    source: /mnt/disk/huggingface/hub
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
  description: The size of the fetched files together.
  type: int
  returned: success
seconds:
  description: How long it took.
  type: float
  returned: success
"""

import contextlib
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.hub import (
    RemoteFile,
    check_path,
    check_request,
    plan_lines,
    to_fetch,
    total,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.snapshot import verify_record
from ansible_collections.firstlight.cluster.plugins.module_utils.directory_source import DirectorySource
from ansible_collections.firstlight.cluster.plugins.module_utils.fetch_job import Job, run_watched
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.hub_client import HubClient
from ansible_collections.firstlight.cluster.plugins.module_utils.snapshot_store import (
    HubError,
    Meter,
    check_room,
    make_directories,
    make_record,
    only_run,
    read_record,
    stats,
    write_record,
    wrong_files,
)


class Source(Protocol):
    """What files can be taken from."""

    meter: Meter

    def files(self) -> list[RemoteFile]:
        """Every file of the revision."""

    def fetch(self, item: RemoteFile, directory: str) -> None:
        """Bring one of them, proven."""


def read_token(path: str | None) -> str:
    """The access token; empty without a file."""
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as stream:
            token = stream.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise HubError(
            f"the access token in {path} cannot be read ({reason}): put the token there, readable for root, "
            "or leave model_weights_token_path empty"
        ) from error
    if not all("!" <= character <= "~" for character in token):
        # What complains of a header that cannot be sent would show it.
        raise HubError(
            f"{path} holds more than one word, or other characters than a token has, expected an access token alone: "
            "put only that there"
        )
    return token


def fetch_all(source: Source, directory: str, files: list[RemoteFile], workers: int) -> None:
    """Fetch the files, the largest first; the first failure ends it once the running ones are done."""
    ordered = sorted(files, key=lambda item: item.size, reverse=True)
    source.meter.begin("copying", total(files))
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        for done in [pool.submit(source.fetch, item, directory) for item in ordered]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def stale_files(record: Mapping[str, Any], files: list[RemoteFile]) -> list[str]:
    """Files an earlier revision brought and this one lacks: an engine would load them too."""
    listed = {item.path for item in files}
    return [check_path(path) for path in sorted(record["files"]) if path not in listed]


def converge(host: Host, source: Source, parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Make the directory hold exactly the proven files of the revision."""
    if check_mode and parameters.get("peer"):
        return without_peer(host, parameters)
    files = source.files()
    if check_mode:
        return bring(host, source, parameters, files, check_mode=True)
    make_directories(parameters["directory"], "")
    with only_run(parameters["directory"]):
        return bring(host, source, parameters, files, check_mode=False)


def without_peer(host: Host, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What check mode can say while nobody shares yet: whether everything is proven here."""
    directory = parameters["directory"]
    record = read_record(host, directory)
    proven, _ = verify_record(record, lambda path: host.size_and_mtime(os.path.join(directory, path)))
    same = (record["repository"], record["revision"]) == (parameters["repository"], parameters["revision"])
    return {"changed": not (proven and same), "fetched": [], "removed": [], "bytes": 0}


def bring(
    host: Host, source: Source, parameters: Mapping[str, Any], files: list[RemoteFile], check_mode: bool
) -> dict[str, Any]:
    """Look at what is there, and fetch, remove and record what differs; the caller holds the lock."""
    directory, workers = parameters["directory"], max(1, parameters["workers"])
    record = read_record(host, directory)
    present = stats(host, directory, [item.path for item in files])
    known = {} if parameters.get("rehash") else record["files"]
    fetch, verify = to_fetch(files, present, known)
    fetch += [item for item, _ in wrong_files(directory, verify, workers, source.meter)]
    stale = stale_files(record, files)
    check_room(host, directory, fetch)
    if not check_mode:
        fetch_all(source, directory, fetch, workers)
        for path in stale:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, path))
    if check_mode and fetch:
        recorded = False
    else:
        proven = make_record(host, directory, parameters["repository"], parameters["revision"], files, record["files"])
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


def source_of(parameters: Mapping[str, Any]) -> HubClient | DirectorySource:
    """Where the files come from."""
    repository, revision = parameters["repository"], parameters["revision"]
    check_request(parameters["endpoint"], repository, revision)
    if parameters["source"]:
        return DirectorySource(parameters["source"], repository, revision)
    token = parameters["token"] or read_token(parameters["token_path"])
    return HubClient(parameters["endpoint"], repository, revision, token=token, peer=parameters["peer"])


def work(parameters: Mapping[str, Any], check_mode: bool, meter: Meter) -> dict[str, Any]:
    """All of it, once."""
    began = time.monotonic()
    source = source_of(parameters)
    source.meter = meter
    result = converge(Host(), source, parameters, check_mode)
    notes = source.notes if isinstance(source, DirectorySource) else []
    return {**result, "notes": notes, "seconds": round(time.monotonic() - began, 3)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "source": {"type": "path"},
            "peer": {"type": "bool", "default": False},
            "repository": {"type": "str", "required": True},
            "revision": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "token_path": {"type": "path", "no_log": False},
            "token": {"type": "str", "no_log": True},
            "rehash": {"type": "bool", "default": False},
            "workers": {"type": "int", "default": 4},
            "wait": {"type": "float", "default": 0},
            "attach": {"type": "bool", "default": False},
        },
        mutually_exclusive=[("source", "peer"), ("source", "token"), ("token", "token_path")],
        supports_check_mode=True,
    )
    parameters = module.params
    run_watched(module, Job(parameters["directory"]), lambda meter: work(parameters, module.check_mode, meter))


if __name__ == "__main__":
    main()
