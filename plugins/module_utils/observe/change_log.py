# SPDX-License-Identifier: Apache-2.0
"""Read the latest changes from a target's logs, with limits on the number of files, their size and the time."""

from __future__ import annotations

import contextlib
import glob
import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ..host import Host
from ..parsers.apt_history import Change, Transaction, parse_apt_history, parse_dpkg_log
from ..parsers.fwupd import parse_history
from ..state.vocabulary import one_spaced
from .drift import last_changes

APT_LOG = "var/log/apt/history.log"
DPKG_LOG = "var/log/dpkg.log"
MOST_FILES = 13
"""The log and the twelve rotated ones that Debian and Ubuntu keep."""
MOST_BYTES = 8 << 20
"""Bytes to read of one file: the end of a longer plain log, the beginning of a longer compressed one."""
MOST_SECONDS = 3.0
"""Time after which no further file is opened."""
SYSCTL_DIRECTORIES = ("etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d")
SYSCTL_CONF = "etc/sysctl.conf"
UNIT_PROPERTIES = "Id,ActiveState,SubState,Result,StateChangeTimestamp"


def read_changes(
    host: Host,
    packages: Mapping[str, str | None],
    paths: Sequence[str] = (),
    units: Sequence[str] = (),
    sysctl: Sequence[str] = (),
    fwupd: bool = False,
    timeout: float = 10.0,
    root: str = "/",
) -> dict[str, Any]:
    """Return what is known of the last change of each of these items; `packages` has the installed versions."""
    errors: dict[str, str] = {}
    found: dict[str, Any] = {"boot": boot_time(host, root), "errors": errors}
    if packages:
        transactions, dpkg = _read_logs(packages, root, errors)
        found["packages"] = last_changes(packages, transactions, dpkg, utc)
        found["since"] = _since(transactions, dpkg)
    if paths:
        found["paths"] = {path: {"changed": _changed(os.path.join(root, path.lstrip("/")))} for path in paths}
    if units:
        found["units"] = _units(host, units, timeout, errors)
    if sysctl:
        found["sysctl"] = _setters(host, sysctl, root)
    if fwupd and host.has("fwupdmgr"):
        found["fwupd"] = _fwupd(host, timeout, errors)
    return found


def utc(moment: datetime) -> str:
    """Convert a time to UTC, in a format by which the logs of other tools can be searched."""
    try:
        return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return moment.strftime("%Y-%m-%dT%H:%M:%S")


def boot_time(host: Host, root: str = "/") -> str | None:
    """Return when process 1 started: the boot of a machine, or the start of a container."""
    kernel = [line for line in (host.read_text(os.path.join(root, "proc/stat")) or "").splitlines() if "btime" in line]
    first = (host.read_text(os.path.join(root, "proc/1/stat")) or "").rpartition(")")[2].split()
    try:
        began = int(kernel[0].split()[1]) + int(first[19]) / os.sysconf("SC_CLK_TCK")
        return utc(datetime.fromtimestamp(int(began), tz=timezone.utc))
    except (IndexError, ValueError, OverflowError, OSError):
        return None


def _read_logs(
    packages: Mapping[str, str | None], root: str, errors: dict[str, str]
) -> tuple[list[Transaction], list[Change]]:
    """Read both logs, newest file first, until every package is accounted for; entries are oldest first."""
    deadline = time.monotonic() + MOST_SECONDS
    dpkg: list[Change] = []
    missing = dict(packages)
    for text in _rotated(os.path.join(root, DPKG_LOG), deadline, errors):
        dpkg = [*(one for one in parse_dpkg_log(text) if one.package in packages), *dpkg]
        for one in dpkg:
            if one.package in missing and one.after == missing[one.package]:
                del missing[one.package]
        if not missing:
            break
    moments = [one.at for one in dpkg if one.at]
    oldest = min(moments) if moments and not missing else None
    transactions: list[Transaction] = []
    for text in _rotated(os.path.join(root, APT_LOG), deadline, errors):
        transactions = [*parse_apt_history(text), *transactions]
        begun = next((one.start for one in transactions if one.start), None)
        if oldest and begun and begun < oldest:
            break
    return transactions, dpkg


def _rotated(path: str, deadline: float, errors: dict[str, str]) -> Iterator[str]:
    """Yield the log and its rotated files, newest first; record those that cannot be read and skip them."""
    for number in range(MOST_FILES):
        names = [path] if number == 0 else [f"{path}.{number}", f"{path}.{number}.gz"]
        present = [name for name in names if os.path.isfile(name)]
        if number and not present:
            return
        for name in present:
            if time.monotonic() > deadline:
                errors[path] = f"older files than {name} were not read within {MOST_SECONDS:g} s"
                return
            try:
                yield _unpacked(name) if name.endswith(".gz") else _tail(name)
            except OSError as error:
                errors[name] = error.strerror or str(error)


def _tail(path: str) -> str:
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - MOST_BYTES))
        return stream.read(MOST_BYTES).decode("utf-8", errors="replace")


def _unpacked(path: str) -> str:
    """Decompress a log as far as possible: a power cut may have truncated it. A long log is cut at its end."""
    with open(path, "rb") as stream:
        packed = stream.read(MOST_BYTES)
    try:
        # 31 expects a gzip header. The gzip module fails for a truncated file instead of returning its contents.
        return zlib.decompressobj(wbits=31).decompress(packed, MOST_BYTES).decode("utf-8", errors="replace")
    except zlib.error:
        return ""


def _since(transactions: Sequence[Transaction], dpkg: Sequence[Change]) -> str | None:
    moments = [one.start for one in transactions if one.start] + [one.at for one in dpkg if one.at]
    return utc(min(moments)) if moments else None


def _changed(path: str) -> str | None:
    """Return when a file was last written; for an absent one its directory, for a Python environment its packages."""
    places = [path, *glob.glob(os.path.join(glob.escape(path), "lib", "python*", "site-packages"))]
    moments = []
    for place in places if os.path.exists(path) else [os.path.dirname(path)]:
        with contextlib.suppress(OSError):
            moments.append(os.stat(place).st_mtime)
    return utc(datetime.fromtimestamp(int(max(moments)), tz=timezone.utc)) if moments else None


def _units(host: Host, names: Sequence[str], timeout: float, errors: dict[str, str]) -> dict[str, Any]:
    result = host.run(["systemctl", "show", f"--property={UNIT_PROPERTIES}", "--", *names], timeout)
    if not result.ok:
        errors["units"] = result.summary
        return {}
    found = {}
    for block in result.stdout.split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("Id"):
            found[fields["Id"]] = {
                "state": fields.get("ActiveState") or None,
                "since": fields.get("StateChangeTimestamp") or None,
                "result": fields.get("Result") or None,
            }
    return found


def _fwupd(host: Host, timeout: float, errors: dict[str, str]) -> list[dict[str, Any]]:
    """Return fwupd's updates. Most hosts have no history, which fwupd reports with an exit status of its own."""
    ran = host.run(["fwupdmgr", "get-history", "--json", "--no-unreported-check"], timeout)
    if ran.problem:
        errors["fwupd"] = ran.summary
        return []
    try:
        return parse_history(ran.stdout)
    except ValueError as error:
        errors["fwupd"] = ran.summary if not ran.ok else str(error)
        return []


def _setters(host: Host, keys: Sequence[str], root: str) -> dict[str, Any]:
    """Return the file that sets each setting last at boot: by file name, where one in /etc hides its namesakes."""
    files: dict[str, str] = {}
    for directory in SYSCTL_DIRECTORIES:
        for path in glob.glob(os.path.join(glob.escape(root), directory, "*.conf")):
            files.setdefault(os.path.basename(path), path)
    ordered = [files[name] for name in sorted(files)] + [os.path.join(root, SYSCTL_CONF)]
    found: dict[str, Any] = {}
    for path in ordered:
        for line in (host.read_text(path) or "").splitlines():
            key, equals, value = line.strip().lstrip("-").partition("=")
            name = key.strip().replace("/", ".")
            if equals and not line.lstrip().startswith(("#", ";")):
                for asked in keys:
                    if asked.replace("/", ".") == name:
                        found[asked] = {"path": path, "value": one_spaced(value)}
    return found
