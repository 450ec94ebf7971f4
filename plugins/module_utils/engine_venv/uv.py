# SPDX-License-Identifier: Apache-2.0
"""uv, the installer: its own pin, where it looks for wheels, and messages for its failures.

uv reads nothing of pip's configuration, which is where a site says once for a host where packages come from. So pip is
asked for it, and uv gets it in its environment: addresses may have passwords in them, and any user can read a command
line.
"""

from __future__ import annotations

import ast
import contextlib
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ..text import said_lines
from .lock import LockError, parse_lock, without_passwords

_SECTIONS = ("global", "install", ":env:")
"""The sections of pip's configuration that apply to an installation; the last one that sets an option wins."""
_TRUE = frozenset({"1", "true", "yes", "on"})

_MISMATCH = re.compile(
    r"Hash mismatch for `(?P<pin>[^`]+)`\s+Expected:\s+(?P<expected>(?:sha256:\w+\s+)+)Computed:\s+sha256:(?P<got>\w+)"
)
_NO_WHEEL = re.compile(
    r"Because (?P<pin>[^\s=]+==\S+) has no (?:usable )?wheels|does not satisfy Python\S+ and (?P<newer>\S+) depends on"
)
_MISSING = re.compile(r"(?:there is no version of|was not found in) .*?you require (?P<pin>[^\s,]+)")
_NETWORK = re.compile(
    r"Request failed after|Failed to fetch|network timeout|error reading a body|error sending request"
)
_FULL = "No space left on device"


@dataclass(frozen=True)
class Tool:
    """The pinned uv: its version, and the lock it is installed from."""

    version: str
    digest: str
    lock_text: str

    @property
    def name(self) -> str:
        """The name of its own environment."""
        return f"uv-{self.version}"


def parse_tool(lock_text: str) -> Tool:
    """Parse the lock of uv; raises LockError if it pins anything else."""
    lock = parse_lock(lock_text, "the lock of uv")
    if list(lock.packages) != ["uv"]:
        raise LockError(
            f"the lock of uv pins {', '.join(lock.packages)}, expected uv alone: use the role's files/uv.txt"
        )
    return Tool(lock.packages["uv"], lock.digest, lock_text)


def is_tool(entry: str) -> bool:
    """Whether an entry of the store is the environment of any uv."""
    return re.fullmatch(r"uv-\d+(\.\w+)+", entry) is not None


@dataclass(frozen=True)
class Source:
    """Where wheels come from: an index, a directory, or the index in pip's configuration on the host."""

    index: str = ""
    wheels: str = ""

    @property
    def words(self) -> str:
        """The source for a message."""
        return self.wheels or self.index or "the index that pip is configured for on the host"

    def for_pip(self) -> list[str]:
        """Return the arguments for pip."""
        if self.wheels:
            return ["--no-index", f"--find-links={self.wheels}"]
        return [f"--index-url={self.index}"] if self.index else []

    def for_uv(self, settings: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return arguments and environment for uv, from pip's settings on the host."""
        if self.wheels:
            return ["--no-index", f"--find-links={self.wheels}"], {}
        environment = uv_environment({**settings, **({"index-url": self.index} if self.index else {})})
        return ["--no-index"] if settings.get("no-index", "").lower() in _TRUE else [], environment


def pip_settings(listed: str) -> dict[str, str]:
    """Parse `pip config list` into the options that apply to an installation."""
    sections: dict[str, dict[str, str]] = {name: {} for name in _SECTIONS}
    for line in listed.splitlines():
        name, separator, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if separator and section in sections:
            with contextlib.suppress(ValueError, SyntaxError):
                sections[section][option] = str(ast.literal_eval(value)).strip()
    return {option: value for name in _SECTIONS for option, value in sections[name].items() if value}


def uv_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Translate pip's settings into the environment variables of uv."""

    def words(option: str) -> list[str]:
        return settings.get(option, "").split()

    def number(*options: str) -> str:
        return next((settings[name] for name in options if settings.get(name, "").isdecimal()), "")

    further = " ".join(words("extra-index-url"))
    proxy = settings.get("proxy", "")
    found = {
        "UV_DEFAULT_INDEX": settings.get("index-url", ""),
        "UV_INDEX": further,
        # pip searches all of its indexes; since hashes are pinned, it does not matter which one has the file.
        "UV_INDEX_STRATEGY": "unsafe-best-match" if further else "",
        # pip ignores a directory that does not exist, uv fails.
        "UV_FIND_LINKS": ",".join(place for place in map(os.path.expanduser, words("find-links")) if _may_be(place)),
        "UV_INSECURE_HOST": " ".join(words("trusted-host")),
        "UV_HTTP_TIMEOUT": number("timeout", "default-timeout"),
        "UV_HTTP_RETRIES": number("retries"),
        "SSL_CERT_FILE": settings.get("cert", ""),
        "SSL_CLIENT_CERT": settings.get("client-cert", ""),
        "HTTP_PROXY": proxy,
        "HTTPS_PROXY": proxy,
    }
    return {name: value for name, value in found.items() if value}


def _may_be(place: str) -> bool:
    """Whether a location of wheels exists, as far as this host can tell; remote ones may."""
    if place.startswith("file:"):
        return os.path.exists(unquote(urlsplit(place).path))
    return "://" in place or os.path.exists(place)


def complaint(said: str, source: str) -> str:
    """Return the message for a failure of uv: what was found, what was expected, what to do."""
    said = without_passwords(said)
    lines = [line.strip() for line in said.splitlines()]
    chain = [line.partition(": ")[2] for line in lines if line.startswith(("error: ", "cause: "))]
    hints = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    advice = f" ({'; '.join(hints)[:400].rstrip('.')})" if hints else ""
    reason = ": ".join(dict.fromkeys([*chain[:2], *chain[-1:]]))[:400] or said.strip()[-400:]
    mismatch, wheel, missing = _MISMATCH.search(said), _NO_WHEEL.search(said), _MISSING.search(said)
    if mismatch:
        expected = " or ".join(digest.removeprefix("sha256:") for digest in mismatch["expected"].split())
        return (
            f"{mismatch['pin']} from {source} has the sha256 {mismatch['got']}, which is not in the lock (expected "
            f"{expected}): the file is not the one that was locked; find out who changed it, or regenerate the lock"
        )
    if wheel:
        return (
            f"{wheel['pin'] or wheel['newer']} has no wheel at {source} that fits this host{advice}, expected one for "
            f"{platform.machine()} and the environment's Python: use the lock of this architecture and Python"
        )
    if missing:
        return (
            f"{missing['pin']} is not offered by {source}{advice}, expected a wheel of it: mirror it there, or correct "
            "engine_venv_index or engine_venv_wheels"
        )
    if _FULL in said:
        return f"the disk is full ({reason}), expected room for what the wheels unpack to: make room"
    if _NETWORK.search(said):
        return (
            f"{source} cannot be read ({reason}), expected every wheel of the lock: check the address, its certificate "
            "and the route to it from this host, and run this again; what was fetched is kept"
        )
    return f"uv failed ({reason}) with {source}, expected every wheel of the lock"


def pip_complaint(said: str) -> str:
    """Summarise a failure of pip: its last connection error, then its last error."""
    lines = said_lines(without_passwords(said))
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    broken = [line for line in lines if "connection broken by" in line or line.startswith("Could not fetch URL")]
    return "; ".join([*broken[-1:], *errors[-1:]])[:600] or (lines or ["it printed nothing"])[-1]
