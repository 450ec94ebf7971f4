# SPDX-License-Identifier: Apache-2.0
"""Run probes in parallel with a timeout each; and the probes of a host's settings.

A failed probe omits its part of the observation and reports the reason under `errors`, without delaying the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..host import Host, Result
from ..parsers.dpkg import DPKG_FORMAT, parse_dpkg_query
from ..parsers.systemd import SYSTEMD_PROPERTIES, parse_systemctl_show
from ..state.vocabulary import WHOLE, State, one_spaced, subjects, sysctl_path
from .tuning_probe import read_clock, read_governors, read_ledger, read_linger, read_managers, read_swap

Probe = Callable[[], Any]
NamedProbe = Callable[[list[str]], Any]

GRACE = 2.0
"""How many seconds longer than the timeout of its commands a probe may take."""


class ProbeError(Exception):
    """Why a probe has no result."""


def observe_settings(host: Host, desired: Mapping[str, Any], timeout: float) -> State:
    """Observe on `host` what a desired state names. Raises ValueError for unknown kinds."""
    wanted = subjects({"settings": desired})
    answers, errors = run_all(settings_probes(host, wanted, timeout), timeout + GRACE)
    return {**{kind: {} for kind in wanted if kind not in WHOLE}, **answers, "errors": errors}


def settings_probes(host: Host, wanted: Mapping[str, list[str]], timeout: float) -> dict[str, Probe]:
    """Return the probes for the wanted settings."""
    by_kind: dict[str, NamedProbe] = {
        "packages": lambda names: _packages(host, names, timeout),
        "files": lambda paths: {path: host.file_state(path) for path in paths},
        "sysctl": lambda keys: {key: _sysctl(host, key) for key in keys},
        "optional_sysctl": lambda keys: {key: _sysctl(host, key) for key in keys},
        "managers": lambda names: read_managers(host, names, timeout),
        "linger": lambda users: read_linger(host, users),
        "ledgers": lambda paths: {path: read_ledger(host, path) for path in paths},
        "units": lambda names: _units(host, names, timeout),
    }
    alone: dict[str, Probe] = {
        "default_target": lambda: answer_of(host.run(["systemctl", "get-default"], timeout)).strip(),
        "governor": lambda: read_governors(host),
        "swap": lambda: read_swap(host),
        "clock": lambda: read_clock(host, timeout),
    }
    return {kind: bound(probe, wanted[kind]) for kind, probe in by_kind.items() if wanted.get(kind)} | {
        kind: probe for kind, probe in alone.items() if kind in wanted
    }


def bound(probe: NamedProbe, names: list[str]) -> Probe:
    """Bind a probe to its names."""
    return lambda: probe(names)


def run_all(probes: Mapping[str, Probe], limit: float) -> tuple[dict[str, Any], dict[str, str]]:
    """Run all probes in parallel. The threads are daemons: one stuck on a dead disk must not block the module."""
    answers: dict[str, Any] = {}
    errors: dict[str, str] = {}

    def work(name: str, probe: Probe) -> None:
        try:
            answers[name] = probe()
        except Exception as error:  # noqa: BLE001 - whatever a probe raises becomes its entry in errors
            errors[name] = _describe(error)

    threads = {
        name: threading.Thread(target=work, args=(name, probe), name=f"probe-{name}", daemon=True)
        for name, probe in probes.items()
    }
    for thread in threads.values():
        thread.start()
    deadline = time.monotonic() + limit
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    overdue = {name: f"no answer within {limit:g} s" for name in probes if name not in answers and name not in errors}
    return dict(answers), {**errors, **overdue}


def _describe(error: Exception) -> str:
    if isinstance(error, (ProbeError, ValueError)):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"


def answer_of(result: Result) -> str:
    """Return a command's output; raises ProbeError if it failed."""
    if not result.ok:
        raise ProbeError(result.summary)
    return result.stdout


def _packages(host: Host, names: Sequence[str], timeout: float) -> dict[str, str | None]:
    result = host.run(["dpkg-query", "--show", f"--showformat={DPKG_FORMAT}", *names], timeout)
    # dpkg-query returns 1 for an unknown package, which is a valid answer.
    if result.problem or result.rc not in (0, 1):
        raise ProbeError(result.summary)
    return parse_dpkg_query(result.stdout, names)


def _sysctl(host: Host, key: str) -> str | None:
    text = host.read_text(sysctl_path(key))
    return None if text is None else one_spaced(text)


def _units(host: Host, names: Sequence[str], timeout: float) -> dict[str, State]:
    command = ["systemctl", "show", f"--property={SYSTEMD_PROPERTIES}", "--", *names]
    return parse_systemctl_show(answer_of(host.run(command, timeout)), names)
