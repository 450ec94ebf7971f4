#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: model_snapshot
short_description: Fetch a model's files at one revision and verify every byte
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Lists the files of a revision on a model hub, on another node that shares it (M(firstlight.cluster.peer_share)) or
    in a directory, brings what is missing or wrong, resumes what was cut off, compares size and digest of each file,
    and writes a record beside them that M(firstlight.cluster.observe) reads.
  - A file whose size and time are as recorded when it was verified is not read again.
  - Its action plugin shows how far it is, with rate and time left, and outlives a connection that breaks.
  - Holds a lock on C(.firstlight-lock) in the directory meanwhile, so that no second run writes there.
  - With O(action=ask) only asks the hub for the head of the model's C(config.json), and fails where it is refused (401,
    403) or unknown (404). Where the hub does not answer, a warning says so. Hosts may be prepared before they have a
    way to the hub.
  - With O(action=verify) reads every byte of the files that the record names again, and compares it with what was
    verified. That finds what changed without a trace, as a disk that forgets does.
options:
  action:
    description: What is done. V(ask) and V(verify) change nothing.
    type: str
    choices: [bring, ask, verify]
    default: bring
  endpoint:
    description: The hub. An address with C(http) is refused, unless O(contents) says which bytes are right.
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
  listing:
    description:
      - With O(peer), the digest of what that node lists, as M(firstlight.cluster.peer_share) returned it there. What
        lists anything else is not that node, and nothing is taken from it.
    type: str
    default: ""
  contents:
    description:
      - The digest that the files which are brought must have together, from whatever source; empty for any. It is the
        SHA-256 of what C(sha256sum) prints for them in the order of their paths, as V(sha256:) and 64 digits.
    type: str
    default: ""
  repository:
    description: The model as C(organisation/name). Required but for O(action=verify).
    type: str
  revision:
    description: The commit, 40 hexadecimal digits. Required but for O(action=verify).
    type: str
  directory:
    description: Where the files go. It is made when it is missing. Required but for O(action=ask).
    type: path
  files:
    description:
      - Which of the repository's files are fetched; without it all of them. C(formats) is a list of formats of weights,
        each with C(name), patterns of file names C(files) and C(except); in each directory the first that is there is
        taken. C(weights) are patterns of names that hold weights and are left out otherwise. C(exclude) and C(include)
        are patterns of paths; C(include) wins.
      - A repository with weights of which none would be brought is refused. Files that an earlier run brought and that
        are left out now are not removed.
    type: dict
    default: {}
  token_path:
    description: >-
      A file on this host with an access token for the hub, for gated models. It is sent to the hub
      only.
    type: path
  token:
    description: >-
      The access token itself, in place of O(token_path). With O(peer) it is that of the node that shares, which signs
      the requests and is not sent.
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
    description: Reports which files would be fetched.
    support: full
  diff_mode:
    description: Shows the files to fetch with their sizes.
    support: full
"""

EXAMPLES = r"""
- name: Fetch the model
  firstlight.cluster.model_snapshot:
    repository: example/tiny
    revision: 0123456789abcdef0123456789abcdef01234567
    directory: /srv/models/tiny

- name: Fetch the model from a disk
  firstlight.cluster.model_snapshot:
    repository: example/tiny
    revision: 0123456789abcdef0123456789abcdef01234567
    source: /mnt/disk/huggingface/hub
    directory: /srv/models/tiny

- name: Check access to the model on the hub
  firstlight.cluster.model_snapshot:
    action: ask
    repository: example/tiny
    revision: 0123456789abcdef0123456789abcdef01234567
    token_path: /etc/firstlight/hub-token

- name: Verify the model files again
  firstlight.cluster.model_snapshot:
    action: verify
    directory: /srv/models/tiny
  register: verified
"""

RETURN = r"""
fetched:
  description: Files that were, or in check mode would be, fetched.
  type: list
  elements: str
  returned: with O(action=bring)
  sample: ["model-00001-of-00002.safetensors"]
removed:
  description: Files of an earlier revision that were, or in check mode would be, removed.
  type: list
  elements: str
  returned: with O(action=bring)
left_out:
  description: Files of the revision that are not fetched, because the engine does not load them.
  type: list
  elements: str
  returned: with O(action=bring)
  sample: ["original/consolidated.00.pth"]
left_out_bytes:
  description: The size of these together.
  type: int
  returned: with O(action=bring)
contents:
  description: The digest of all files that are verified now, for O(contents). Empty while some are still to be fetched.
  type: str
  returned: with O(action=bring)
bytes:
  description: The size of the fetched files together, with O(action=verify) of those that were read.
  type: int
  returned: with O(action=bring) and O(action=verify)
files:
  description: How many files were read.
  type: int
  returned: with O(action=verify)
problems:
  description: One line for each file that is not as it was verified. None when all are.
  type: list
  elements: str
  returned: with O(action=verify)
  sample: ["model-2.safetensors has sha256:39fdbcddd0cf78a74..., expected sha256:5c50b988966f2... as it was verified"]
access:
  description: Whether the hub hands out the model, false where it does not answer; the module fails where it refuses.
  type: bool
  returned: with O(action=ask)
seconds:
  description: How long it took.
  type: float
  returned: with O(action=bring)
"""

import contextlib
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.text import gigabytes
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.directory_source import DirectorySource
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.fetch_job import Job, run_watched
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.file_selection import (
    Selection,
    check_selection,
    files_lacking,
    read_selection,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub import (
    RemoteFile,
    check_path,
    check_request,
    plan_lines,
    to_fetch,
    total,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub_client import HubClient
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub_token import hub_token
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import (
    RECORD_NAME,
    contents_digest,
    left_out,
    parse_record,
    record_contents,
    verify_record,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import (
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
        """Bring one of them, verified."""


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
    """Files an earlier revision brought and this one lacks: an engine would load them too.

    `files` is everything the revision has. What is only left out of it was verified here once, and nothing loads it: it
    stays.
    """
    listed = {item.path for item in files}
    return [check_path(path) for path in sorted(record["files"]) if path not in listed]


def converge(host: Host, source: Source, parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Make the directory hold exactly the verified files of the revision."""
    if check_mode and parameters.get("peer"):
        return without_peer(host, parameters)
    files = source.files()
    chosen = choose(files, read_selection(parameters.get("files")), parameters)
    if check_mode:
        return bring(host, source, parameters, files, chosen, check_mode=True)
    make_directories(parameters["directory"], "")
    with only_run(parameters["directory"]):
        return bring(host, source, parameters, files, chosen, check_mode=False)


def choose(files: list[RemoteFile], selection: Selection, parameters: Mapping[str, Any]) -> list[RemoteFile]:
    """Those that are brought. Raises HubError when that would be no model."""
    try:
        taken = set(check_selection([item.path for item in files], selection))
    except ValueError as error:
        raise HubError(f"{parameters['repository']} at {parameters['revision']}: {error}") from error
    chosen = [item for item in files if item.path in taken]
    elsewhere = sorted(item.path for item in chosen if not item.digest)
    if elsewhere:
        raise HubError(
            f"the sharing node has left out {elsewhere[0]}, expected every file that this node is to have: give "
            "both the same model_weights_files and run again"
        )
    return chosen


def without_peer(host: Host, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What check mode can say while nobody shares yet: whether everything is verified here."""
    directory = parameters["directory"]
    record = read_record(host, directory)
    verified, _ = verify_record(record, lambda path: host.size_and_mtime(os.path.join(directory, path)))
    same = (record["repository"], record["revision"]) == (parameters["repository"], parameters["revision"])
    same = same and parameters.get("contents") in (None, "", record_contents(record))
    wanted = files_lacking(read_selection(parameters.get("files")), record["files"], left_out(record))
    none: dict[str, Any] = {"fetched": [], "removed": [], "bytes": 0, "left_out": [], "left_out_bytes": 0}
    none["contents"] = ""
    return {"changed": bool(wanted) or not (verified and same), **none}


def bring(
    host: Host,
    source: Source,
    parameters: Mapping[str, Any],
    files: list[RemoteFile],
    chosen: list[RemoteFile],
    check_mode: bool,
) -> dict[str, Any]:
    """Look at what is there, and fetch, remove and record what differs; the caller holds the lock.

    `files` is all that the revision has, `chosen` what of it is brought.
    """
    directory, workers = parameters["directory"], max(1, parameters["workers"])
    # A hub tells the SHA-256 of large files only: of the others it is known once they are here.
    check_contents(contents_digest({item.path: item.known_sha256 for item in chosen}), parameters)
    record = read_record(host, directory)
    present = stats(host, directory, [item.path for item in chosen])
    known = {} if parameters.get("rehash") else record["files"]
    fetch, verify = to_fetch(chosen, present, known)
    fetch += [item for item, _ in wrong_files(directory, verify, workers, source.meter)]
    stale = stale_files(record, files)
    brought = {item.path for item in chosen}
    others = [item for item in files if item.path not in brought]
    check_room(host, directory, fetch)
    if not check_mode:
        fetch_all(source, directory, fetch, workers)
    contents = ""
    if check_mode and fetch:
        recorded = False
    else:
        verified = make_record(
            host, directory, parameters["repository"], parameters["revision"], chosen, record["files"], others
        )
        contents = record_contents(verified)
        check_contents(contents, parameters)
        recorded = verified == record
        if not check_mode:
            for path in stale:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(directory, path))
            if not recorded:
                write_record(directory, verified)
    return {
        "changed": bool(fetch or stale or not recorded),
        "fetched": sorted(item.path for item in fetch),
        "removed": stale,
        "bytes": total(fetch),
        "left_out": sorted(item.path for item in others),
        "left_out_bytes": total(others),
        "contents": contents,
        "diff": {"before": "".join(f"{path}\n" for path in stale), "after": plan_lines(fetch)},
        "notes": leftovers(directory, stats(host, directory, [item.path for item in others])),
    }


def check_contents(found: str, parameters: Mapping[str, Any]) -> None:
    """Refuse files that are not the pinned ones; an empty digest is not known yet."""
    expected = parameters.get("contents") or ""
    if found and expected and found != expected:
        raise HubError(
            f"the files of {parameters['repository']} at {parameters['revision']} have the digest {found} together, "
            f"expected {expected} as they are pinned: they are not the files that were reviewed, or "
            "the selection has changed (model_weights_files); find out which before you change the pin; nothing was "
            "recorded as verified"
        )


def leftovers(directory: str, there: Mapping[str, tuple[int, int]]) -> list[str]:
    """What to say of files that an earlier run brought, and that nothing loads."""
    if not there:
        return []
    size = sum(size for size, _ in there.values())
    words = (
        f"{directory} has {len(there)} files ({gigabytes(size)}, such as {min(there)}) that the engine does not load: "
        "they are left alone; remove them to free the space"
    )
    return [words]


def source_of(parameters: Mapping[str, Any]) -> HubClient | DirectorySource:
    """Where the files come from."""
    repository, revision, peer = parameters["repository"], parameters["revision"], parameters["peer"]
    plain = bool(peer or parameters["source"] or parameters["contents"])
    check_request(parameters["endpoint"], repository, revision, plain)
    if parameters["source"]:
        return DirectorySource(parameters["source"], repository, revision, read_selection(parameters.get("files")))
    token = (
        parameters["token"]
        if peer
        else hub_token(parameters["token"], parameters["token_path"], parameters["endpoint"])
    )
    return HubClient(
        parameters["endpoint"], repository, revision, token=token, peer=peer, listing=parameters["listing"]
    )


def work(parameters: Mapping[str, Any], check_mode: bool, meter: Meter) -> dict[str, Any]:
    """All of it, once."""
    began = time.monotonic()
    source = source_of(parameters)
    source.meter = meter
    result = converge(Host(), source, parameters, check_mode)
    notes = [*result.pop("notes", []), *(source.notes if isinstance(source, DirectorySource) else [])]
    return {**result, "notes": notes, "seconds": round(time.monotonic() - began, 3)}


def verify(host: Host, parameters: Mapping[str, Any], meter: Meter) -> dict[str, Any]:
    """Read all files that the record names."""
    directory = parameters["directory"]
    text = host.read_text(os.path.join(directory, RECORD_NAME))
    try:
        files = recorded_files(text)
    except (ValueError, KeyError, TypeError) as error:
        told = f"{directory} has a record that cannot be used ({error}): fetch the model again, which writes a new one"
        return {"changed": False, "files": 0, "bytes": 0, "problems": [told]}
    if not files:
        return {"changed": False, "files": 0, "bytes": 0, "problems": [f"{directory} has no record of verified files"]}
    wrong = wrong_files(directory, files, max(1, parameters["workers"]), meter)
    problems = [
        f"{item.path} has {_short(found)}, expected {_short(item.digest)} as it was verified"
        if found
        else f"{item.path} is missing"
        for item, found in wrong
    ]
    return {"changed": False, "files": len(files), "bytes": total(files), "problems": problems}


def recorded_files(text: str | None) -> list[RemoteFile]:
    """What a record says was verified; nothing without one."""
    record = parse_record(text) if text is not None else {"files": {}}
    return [
        RemoteFile(check_path(path), int(entry["size"]), str(entry["digest"]), str(entry.get("sha256") or ""))
        for path, entry in sorted(record["files"].items())
    ]


def _short(digest: str) -> str:
    """Enough of a digest to tell two apart: a line may name several files."""
    return f"{digest[:24]}..."


def ask(module: AnsibleModule) -> None:
    """Find out whether the hub will hand out the model."""
    wanted = module.params
    try:
        # A hub over http is checked by the plan, which knows whether the bytes are pinned.
        check_request(wanted["endpoint"], wanted["repository"], wanted["revision"], True)
        token = hub_token(wanted["token"], wanted["token_path"], wanted["endpoint"])
        access = HubClient(wanted["endpoint"], wanted["repository"], wanted["revision"], token=token).check_access()
    except (HubError, ValueError) as error:
        module.fail_json(msg=f"{error}. Nothing was changed on this host")
    if not access:
        module.warn(
            f"{wanted['endpoint']} does not answer, expected it to hand out {wanted['repository']}: the weights cannot "
            "be fetched until it does"
        )
    module.exit_json(changed=False, access=access)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": ["bring", "ask", "verify"], "default": "bring"},
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "source": {"type": "path"},
            "peer": {"type": "bool", "default": False},
            "listing": {"type": "str", "default": ""},
            "contents": {"type": "str", "default": ""},
            "repository": {"type": "str"},
            "revision": {"type": "str"},
            "directory": {"type": "path"},
            "files": {"type": "dict", "default": {}},
            "token_path": {"type": "path", "no_log": False},
            "token": {"type": "str", "no_log": True},
            "rehash": {"type": "bool", "default": False},
            "workers": {"type": "int", "default": 4},
            "wait": {"type": "float", "default": 0},
            "attach": {"type": "bool", "default": False},
        },
        mutually_exclusive=[("source", "peer"), ("source", "token"), ("token", "token_path")],
        required_if=[
            ("action", "bring", ("repository", "revision", "directory")),
            ("action", "ask", ("repository", "revision")),
            ("action", "verify", ("directory",)),
        ],
        supports_check_mode=True,
    )
    parameters = module.params
    if parameters["action"] == "ask":
        ask(module)
    if parameters["action"] == "verify":
        subject = f"the verification of {parameters['directory']}"
        run_watched(module, Job(subject), lambda meter: verify(Host(), parameters, meter))
    else:
        run_watched(module, Job(parameters["directory"]), lambda meter: work(parameters, module.check_mode, meter))


if __name__ == "__main__":
    main()
