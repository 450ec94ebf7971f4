# SPDX-License-Identifier: Apache-2.0
"""Support bundles: the output of diagnostic tools on many hosts, one directory per host, with a manifest.

Whatever a host returns is written as text, under a name that cannot leave the host's own directory: a host under
diagnosis may be broken or hostile.
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
"""Maximum characters kept of one output; no working tool prints as much."""
_KEPT, _ALL_OF_A_HOST = 200, 64 << 20
"""Maximum number of files, and of characters, accepted from one host."""
_LINE = 2_000
"""Maximum length of a command or a reason."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters that a terminal showing the file would act on."""
_ALWAYS_TOLD = "nvidia-smi"
"""A tool that is reported even if it is not installed: without it nothing is known about a GPU."""


class SupportBundleError(Exception):
    """A support bundle cannot be created; the message is shown as is."""


@dataclass
class HostPart:
    """What was collected from one host."""

    label: str
    """Name of its directory and of its entry in the manifest."""
    about: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def labels(hosts: Iterable[str], *, anonymous: bool = False) -> dict[str, str]:
    """Return each host's label in the bundle: its own name made safe for a directory, or host1, host2 and so on."""
    found: dict[str, str] = {}
    for number, host in enumerate(hosts, start=1):
        own = f"host{number}" if anonymous else safe_name(host)
        # Labels must be unique and must not clash with the manifest.
        taken = {MANIFEST, *found.values()}
        others = (f"{own}-{further}" for further in itertools.count(number))
        found[host] = own if own not in taken else next(label for label in others if label not in taken)
    return found


def request(name: str, plan: Mapping[str, Any] | None, hardware: str | None) -> dict[str, Any]:
    """Return what to collect from a host and what is known about it; without a plan, only what applies to any host."""
    known = plan or {}
    host = known.get("host") or {}
    roles = known.get("roles") or {}
    server = roles.get("inference_server") or {}
    ray = bool(roles.get("ray_cluster"))
    port = server.get("inference_server_port") if host.get("is_head") else None
    ports = [str(one["port"]) for one in host.get("fabric") or () if one.get("port")]
    # dcgm-diag is an active test, which collecting output must not start.
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
    """Build the files of one host and its manifest entry from the result of module `gpu_info`.

    The module redacted its output on the host. `hide` redacts Ansible's message about a host that returned nothing.
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
        text, why = _text(one) if room > 0 else ("", "the host has already returned too much")
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
    """Return one line, from Ansible or the module, on why a host returned nothing."""
    told = answer or {}
    line = _line(told.get("msg"))[:300]
    if told.get("unreachable"):
        return f"the host does not answer: {line}" if line else "the host does not answer"
    return line or "it was not queried"


def _text(one: Mapping[str, Any]) -> tuple[str, str]:
    """Render one output as a capture between its command and exit status, or return why there is none."""
    text, problem, rc = str(one.get("text") or "")[: LARGEST + 1], _line(one.get("problem")), _number(one.get("rc"))
    command = _line(one.get("command"))
    absent = rc == RC_NOT_FOUND and problem and not command.startswith(_ALWAYS_TOLD)
    if absent or (not text.strip() and rc != RC_TIMEOUT):
        return "", problem or f"it printed nothing and returned {rc}"
    said = text.rstrip("\n") if text.strip() else problem
    said = _CONTROLS.sub("\ufffd", strip_ansi(said[:LARGEST]).replace("\r\n", "\n").replace("\r", "\n"))
    return f"$ {command}\n{said}\nrc={rc}\n" if command else f"{said}\n", ""


def _line(value: Any) -> str:
    return _CONTROLS.sub("\ufffd", " ".join(str(value or "").split())[:_LINE])


def _kind(name: str, one: Mapping[str, Any]) -> str | None:
    """Return the kind of an output; older hosts do not give it, so derive it from the name (nvlink-errors: nvlink)."""
    told = str(one.get("kind") or "")
    if told in KINDS:
        return told
    return next((kind for kind in sorted(KINDS, key=len, reverse=True) if name.startswith(kind)), None)


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def safe_name(name: object) -> str:
    """Make a safe file name: no separators, not hidden, of limited length."""
    return re.sub(r"[^A-Za-z0-9_.@+-]", "_", str(name)).lstrip(".-")[:100] or "_"


# --- on disk ------------------------------------------------------------------------------------------------


def check_directory(directory: str) -> None:
    """Reject a directory that is not empty: two bundles in one would be evaluated as one."""
    try:
        taken = os.listdir(directory)
    except FileNotFoundError:
        parent = os.path.dirname(os.path.abspath(directory))
        if not os.path.isdir(parent):
            raise SupportBundleError(
                f"{parent} is not a directory, expected one to put the support bundle in: create it"
            ) from None
        return
    except OSError as error:
        raise SupportBundleError(
            f"{directory} cannot be used ({error.strerror}), expected a directory that is empty or does not exist: "
            "name another one"
        ) from error
    if taken:
        raise SupportBundleError(
            f"{directory} has {len(taken)} files in it, expected a directory that is empty or does not exist: "
            "name another one"
        )


def write(directory: str, parts: Sequence[HostPart], made: str) -> None:
    """Write the bundle, readable only by the current user. The manifest comes last and marks it as complete.

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
    # O_EXCL: never write to a file that someone has put there in the meantime.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as stream:
        stream.write(text)


def report(directory: str, parts: Sequence[HostPart]) -> list[str]:
    """Return the closing summary for the operator."""
    there = [part for part in parts if part.files]
    lines = [f"{part.label}: {part.about['error']}" for part in parts if part.about.get("error")]
    kept = sum(len(part.files) for part in there)
    lines.append(f"{kept} outputs of {len(there)} of {len(parts)} hosts are in {directory}")
    if there:
        lines.append(f"evaluate them: firstlight diagnose {directory}")
    return lines
