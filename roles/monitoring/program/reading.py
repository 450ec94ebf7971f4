# SPDX-License-Identifier: Apache-2.0
"""Reads the parts of a page: each separately, each with a time limit. None of them writes anything."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import DRAINED_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dpkg import DPKG_FORMAT, parse_dpkg_query
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.kernel_log import parse_kernel_log
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import (
    CONFIG_PATH as SUPERVISOR_CONFIG_PATH,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import STATE_PATH, read_document

from .gpu_series import FIELDS, gpu_families, parse_rows, xid_families
from .group_series import Starts, group_families
from .host_series import certificate_end, certificate_families, dropped_packets, firewall_families, pin_families
from .page import Family, gauge, taken_over
from .ray_agent import ABSENT, lacks_agent
from .settings import Settings, Source

Read = Callable[[], list[Family]]

PAGE_SECONDS = 4.0
COMMAND_SECONDS = 5.0
MOST_BYTES = 8 * 1024 * 1024
XID_PATTERN = "Xid"
RAY = "ray"
PROCESSES = "/proc"
_NOT_A_FIELD = re.compile(r'[Ff]ield "?([\w.]+)"? is not a valid field')


class ReadError(Exception):
    """A part could not be read; the message is one sentence."""


class AbsentError(Exception):
    """A part cannot exist here, and nobody is to be alerted; the message is one sentence that says why."""


class Readings:
    """The parts of this node's page. Tests pass another host."""

    def __init__(self, settings: Settings, host: Host | None = None) -> None:
        self._settings = settings
        self._host = host or Host()
        self._starts = Starts()

    def parts(self) -> dict[str, tuple[Read, float]]:
        """Return, by name, the function that reads each part and for how many seconds a reading stays valid."""
        settings = self._settings
        found: dict[str, tuple[Read, float]] = {"host": (self._drained, 0.0)}
        for source in settings.sources:
            found[source.name] = (self._ray(source) if source.name == RAY else _proxy(source), 0.0)
        if settings.supervisor:
            found["supervisor"] = (self._groups, 0.0)
        if settings.pins:
            found["pins"] = (self._pins, 60.0)
        if settings.certificates:
            found["certificates"] = (self._certificates, 300.0)
        if settings.firewall_tables:
            found["firewall"] = (self._firewall, 10.0)
        if settings.gpus:
            found["gpu"] = (self._gpus, 10.0)
            found["kernel_log"] = (self._xids, 15.0)
        return found

    def _drained(self) -> list[Family]:
        there = self._host.read_text(DRAINED_PATH) is not None
        return [gauge("firstlight_host_drained", "Whether this node is out of service.", [({}, float(there))])]

    def _ray(self, source: Source) -> Read:
        read = _proxy(source)

        def read_or_see_why() -> list[Family]:
            try:
                return read()
            except ReadError as error:
                if lacks_agent(self._command_lines()):
                    raise AbsentError(ABSENT) from error
                raise

        return read_or_see_why

    def _command_lines(self) -> list[str]:
        numbers = [name for name in self._host.names(PROCESSES) if name.isdecimal()]
        return [self._host.read_text(f"{PROCESSES}/{number}/cmdline") or "" for number in numbers]

    def _groups(self) -> list[Family]:
        config, state = self._document(SUPERVISOR_CONFIG_PATH), self._document(STATE_PATH)
        return group_families(config, state, self._starts, self._settings.targets)

    def _document(self, path: str) -> Mapping[str, Any]:
        document, problem = read_document(self._host.read_text(path), path)
        if document is None:
            raise ReadError(problem or f"{path} is missing or cannot be read")
        return document

    def _pins(self) -> list[Family]:
        names = sorted(self._settings.pins)
        # It returns 1 if one of them is not installed, and lists the others.
        result = self._host.run(["dpkg-query", "--show", f"--showformat={DPKG_FORMAT}", *names], COMMAND_SECONDS)
        if result.problem or result.rc > 1:
            raise ReadError(result.summary)
        return pin_families(self._settings.pins, parse_dpkg_query(result.stdout, names))

    def _certificates(self) -> list[Family]:
        ends = {}
        for path in self._settings.certificates:
            result = self._run("openssl", "x509", "-enddate", "-noout", "-in", path)
            ends[path] = certificate_end(result)
        return certificate_families(ends)

    def _firewall(self) -> list[Family]:
        tables = {
            table: dropped_packets(self._run("nft", "--json", "list", "table", *table.split()))
            for table in self._settings.firewall_tables
        }
        return firewall_families(tables)

    def _gpus(self) -> list[Family]:
        fields = list(FIELDS)
        while True:
            command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
            result = self._host.run(command, COMMAND_SECONDS)
            refused = _NOT_A_FIELD.search(result.stdout + result.stderr)
            if not result.ok and refused and refused[1] in fields:
                fields.remove(refused[1])
                continue
            if not result.ok:
                raise ReadError(result.summary)
            return gpu_families(parse_rows(result.stdout, fields), self._settings.gpus)

    def _xids(self) -> list[Family]:
        # The pattern keeps this fast: a log of weeks is long, and most of it is irrelevant here.
        command = ["journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--output=short-iso"]
        result = self._host.run([*command, f"--grep={XID_PATTERN}"], COMMAND_SECONDS)
        # It returns 1 without output if no line matches.
        if result.problem or (not result.ok and (result.rc != 1 or result.stderr.strip())):
            raise ReadError(result.summary)
        data, _ = parse_kernel_log(result.stdout) if result.stdout.strip() else ({}, [])
        return xid_families(data.get("xids") or ())

    def _run(self, *argv: str) -> str:
        result = self._host.run(list(argv), COMMAND_SECONDS)
        if not result.ok:
            raise ReadError(result.summary)
        return result.stdout


def _proxy(source: Source) -> Read:
    def read() -> list[Family]:
        return taken_over(fetch(source.url), source.allowed, source.labels)

    return read


def fetch(url: str, timeout: float = PAGE_SECONDS) -> str:
    """Fetch another program's page, without environment proxies or redirects. Raises ReadError."""
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.HTTPHandler(), urllib.request.HTTPErrorProcessor(), _NoErrors()):
        opener.add_handler(handler)
    try:
        with contextlib.closing(opener.open(url, timeout=timeout)) as answer:
            body = answer.read(MOST_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ReadError(f"{url} does not answer: {error}") from error
    if len(body) > MOST_BYTES:
        raise ReadError(f"{url} has more than {MOST_BYTES} bytes")
    return str(body.decode("utf-8", errors="replace"))


class _NoErrors(urllib.request.HTTPDefaultErrorHandler):
    """Turns every status but success into an error, redirects included."""


def read_settings_document(path: str) -> object:
    """Load the configuration from disk. Raises ValueError if it cannot be read or is not JSON."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): run the role monitoring again") from error
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): run the role monitoring again") from error
