# SPDX-License-Identifier: Apache-2.0
"""A support bundle: what the tools of many hosts printed, one directory a host, and a manifest that says what is what.

Whatever a host hands in is written down as text and under a name that can only lie in its own directory: a host that is
to be looked at may be a broken or a hostile one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.host import RC_NOT_FOUND, RC_TIMEOUT
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import KINDS
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.text import strip_ansi

FORMAT = 1
MANIFEST = "manifest.json"
LARGEST = 8 << 20
"""Characters of a text that are kept; no tool that works prints as many."""
_KEPT, _ALL_OF_A_HOST = 200, 64 << 20
"""Files, and characters, that are taken from one host."""
_LINE = 2_000
"""Characters of a command or a reason."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal would act on that shows the file."""
_ALWAYS_TOLD = "nvidia-smi"
"""The tool without which nothing is known of a GPU: that it is not installed is a finding, not an absence."""


class SupportBundleError(Exception):
    """A support bundle that cannot be made; the message is shown as it is."""


@dataclass
class HostPart:
    """What was collected of one host."""

    label: str
    """Its directory, and its name in the manifest."""
    about: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def labels(hosts: Iterable[str], *, anonymous: bool = False) -> dict[str, str]:
    """Each host's name in the support bundle: its own, as far as a directory can have it, or host1, host2 and so on."""
    found: dict[str, str] = {}
    for number, host in enumerate(hosts, start=1):
        own = f"host{number}" if anonymous else safe_name(host)
        # One directory cannot be of two hosts, nor be the manifest.
        taken = {MANIFEST, *found.values()}
        others = (f"{own}-{further}" for further in itertools.count(number))
        found[host] = own if own not in taken else next(label for label in others if label not in taken)
    return found


def request(name: str, plan: Mapping[str, Any] | None, hardware: str | None) -> dict[str, Any]:
    """What to ask a host for, and what is known about it. Without a plan only what every host can be asked."""
    known = plan or {}
    host = known.get("host") or {}
    roles = known.get("roles") or {}
    server = roles.get("inference_server") or {}
    ray = bool(roles.get("ray_cluster"))
    port = server.get("inference_server_port") if host.get("is_head") else None
    ports = [str(one["port"]) for one in host.get("fabric") or () if one.get("port")]
    # A diagnostic is a test of its own, which nobody wants run by a look at a host.
    runs = {"ray-status": ray, "vllm-metrics": bool(port), "dcgm-diag": False}
    return {
        "name": name,
        "hardware": (known.get("cluster") or {}).get("hardware") or hardware or None,
        "driver": (roles.get("gpu_verify") or {}).get("gpu_verify_driver") or None,
        "kinds": [kind for kind in KINDS if runs.get(kind, True)],
        "ports": ports,
        "metrics_port": port,
    }


def host_part(
    label: str, asked: Mapping[str, Any], answer: Mapping[str, Any] | None, hide: Callable[[str], str] = str
) -> HostPart:
    """The files of one host and its entry in the manifest, from what the module `gpu_info` handed in.

    That was gone through on the host. `hide` does the same for what Ansible says of a host that handed in nothing.
    """
    about = {"hardware": asked.get("hardware"), "driver": asked.get("driver")}
    part = HostPart(label, {key: str(value) if value else None for key, value in about.items()})
    raw = (answer or {}).get("raw")
    if not isinstance(raw, Mapping) or not raw:
        part.about |= {"error": hide(_why(answer)), "files": {}}
        return part
    listed: dict[str, Any] = {}
    without: dict[str, str] = {}
    room = _ALL_OF_A_HOST
    for name, one in list(raw.items())[:_KEPT]:
        if not isinstance(one, Mapping):
            continue
        text, why = _text(one) if room > 0 else ("", "the host has handed in too much before")
        if why:
            without[safe_name(name)] = why
            continue
        room -= len(text)
        file = f"{safe_name(name)}.txt"
        part.files[file] = text
        listed[file] = {
            "kind": _kind(str(name), one),
            "command": _line(one.get("command")),
            "rc": _number(one.get("rc")),
            "seconds": _number(one.get("seconds")),
        }
    part.about |= {"files": listed, "without": without}
    return part


def _why(answer: Mapping[str, Any] | None) -> str:
    """Why a host handed in nothing: one line, from Ansible or the module."""
    told = answer or {}
    line = _line(told.get("msg"))[:300]
    if told.get("unreachable"):
        return f"the host does not answer: {line}" if line else "the host does not answer"
    return line or "it was not asked"


def _text(one: Mapping[str, Any]) -> tuple[str, str]:
    """An answer as a capture, with the command before and the status after it; or why it is none."""
    text, problem, rc = str(one.get("text") or "")[: LARGEST + 1], _line(one.get("problem")), _number(one.get("rc"))
    command = _line(one.get("command"))
    absent = rc == RC_NOT_FOUND and problem and not command.startswith(_ALWAYS_TOLD)
    if absent or (not text.strip() and rc != RC_TIMEOUT):
        return "", problem or f"it said nothing and returned {rc}"
    said = text.rstrip("\n") if text.strip() else problem
    said = _CONTROLS.sub("\ufffd", strip_ansi(said[:LARGEST]).replace("\r\n", "\n").replace("\r", "\n"))
    return f"$ {command}\n{said}\nrc={rc}\n" if command else f"{said}\n", ""


def _line(value: Any) -> str:
    return _CONTROLS.sub("\ufffd", " ".join(str(value or "").split())[:_LINE])


def _kind(name: str, one: Mapping[str, Any]) -> str | None:
    """As what it is read. The name alone tells it of an older host: nvlink-errors is read as nvlink."""
    told = str(one.get("kind") or "")
    if told in KINDS:
        return told
    return next((kind for kind in sorted(KINDS, key=len, reverse=True) if name.startswith(kind)), None)


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def safe_name(name: object) -> str:
    """A name for a file that lies where it is put: no separators, not hidden, not endless."""
    return re.sub(r"[^A-Za-z0-9_.@+-]", "_", str(name)).lstrip(".-")[:100] or "_"


# --- on disk ------------------------------------------------------------------------------------------------


def check_directory(directory: str) -> None:
    """Refuses a directory that has something in it: two support bundles in one would be evaluated as one."""
    try:
        taken = os.listdir(directory)
    except FileNotFoundError:
        parent = os.path.dirname(os.path.abspath(directory))
        if not os.path.isdir(parent):
            raise SupportBundleError(
                f"{parent} is not a directory, expected one to put the support bundle in: make it"
            ) from None
        return
    except OSError as error:
        raise SupportBundleError(
            f"{directory} cannot be used ({error.strerror}), expected a directory that is empty or not there: "
            "name another one"
        ) from error
    if taken:
        raise SupportBundleError(
            f"{directory} has {len(taken)} files in it, expected a directory that is empty or not there: "
            "name another one"
        )


def write(directory: str, parts: Sequence[HostPart], made: str) -> None:
    """Write everything down, for nobody but who runs this. The manifest comes last: with it the bundle is whole.

    Raises OSError.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    os.chmod(directory, 0o700)
    for part in parts:
        if not part.files:
            continue
        home = os.path.join(directory, part.label)
        os.mkdir(home, 0o700)
        for name, text in part.files.items():
            _write_file(os.path.join(home, name), text)
    manifest = {"firstlight": FORMAT, "made": made, "hosts": {part.label: part.about for part in parts}}
    _write_file(os.path.join(directory, MANIFEST), json.dumps(manifest, indent=2) + "\n")


def _write_file(path: str, text: str) -> None:
    # A new file, never one that somebody has put there meanwhile.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as stream:
        stream.write(text)


def report(directory: str, parts: Sequence[HostPart]) -> list[str]:
    """What a person is told at the end."""
    there = [part for part in parts if part.files]
    lines = [f"{part.label}: {part.about['error']}" for part in parts if part.about.get("error")]
    kept = sum(len(part.files) for part in there)
    lines.append(f"{kept} outputs of {len(there)} of {len(parts)} hosts are in {directory}")
    if there:
        lines.append(f"evaluate them: firstlight diagnose {directory}")
    return lines
