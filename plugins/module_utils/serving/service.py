# SPDX-License-Identifier: Apache-2.0
"""Drain and uncordon a host, restart its serving group, and wait for the result."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..durable import remove_durable, write_durable
from ..engine_container import BALANCER_UNIT, DRAINED_PATH, SUPERVISOR_UNIT
from ..host import Host
from .files import CONFIG_PATH, REMEMBERED_PATH, REPIN_PATH, STATE_PATH, read_document
from .left import RUNNING, UNIT_PROPERTIES, leftovers, of_the_group, parse_units, unit_words
from .look import look
from .phase import DONE, HOPELESS, OUT, Standing, epochs, standing

PAUSE_SECONDS = 1.0
PATIENCE = {HOPELESS: 5, OUT: 25}
"""After how many consecutive rounds a verdict is accepted."""
Now = Callable[[], datetime.datetime]


class ServiceError(Exception):
    """What was found, what was expected, and what to do."""


def utc_now() -> datetime.datetime:
    """Return the host's current time."""
    return datetime.datetime.now(datetime.timezone.utc)


# --- the marker ---------------------------------------------------------------------------------------------


def drained_by(marker: Mapping[str, Any]) -> str:
    """Describe who drained a host, and why."""
    by = str(marker.get("by") or "somebody by hand")
    reason = str(marker.get("reason") or "")
    at = str(marker.get("at") or "")
    return by + (f" at {at}" if at else "") + (f": {reason}" if reason else "")


def set_marker(host: Host, content: Mapping[str, Any], *, check_mode: bool, path: str = DRAINED_PATH) -> bool:
    """Drain the host; return whether anything changes.

    A drained host keeps the reason that was given first, unless there is a new one. The marker of a re-pin is never
    replaced.
    """
    text = host.read_text(path)
    found = None if text is None else read_document(text, path)[0] or {}
    if found is not None and (found.get("id") or not content.get("reason") or _same(found, content)):
        return False
    if not check_mode:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        write_durable(path, _json(content), 0o644)
    return True


def remove_marker(host: Host, *, check_mode: bool, path: str = DRAINED_PATH, repin: str = REPIN_PATH) -> bool:
    """Uncordon the host; return whether anything changes. Raises ServiceError while a re-pin is unfinished."""
    text = host.read_text(path)
    if text is None:
        return False
    if host.read_text(repin) is not None:
        raise ServiceError(
            f"This host is in the middle of a re-pin ({repin} is there), expected none before it serves again: finish "
            "it with playbooks/repin.yml, which also uncordons the host"
        )
    if not check_mode:
        remove_durable(path)
    return True


def _same(found: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    return all(found.get(key) == content.get(key) for key in ("by", "reason"))


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(dict(content), indent=1) + "\n"


# --- units --------------------------------------------------------------------------------------------------


def unkept_units(seen: Mapping[str, Any]) -> list[str]:
    """Return running units that the supervisor does not stop: the balancer, and all units if no supervisor runs."""
    units = seen["units"]
    names = [BALANCER_UNIT] if BALANCER_UNIT in units else []
    if seen["supervisor_active"] not in RUNNING:
        names += of_the_group(units)
    return [name for name in names if units[name]["active"] in RUNNING]


def stop_group(host: Host, limit: float) -> list[str]:
    """Stop the units that the supervisor does not stop; return their names."""
    running = unkept_units(look(host, segments=False))
    for name in running:
        result = host.run(["systemctl", "stop", name], timeout=limit)
        if not result.ok:
            raise ServiceError(f"{name} cannot be stopped ({result.summary}): see `systemctl status {name}`")
    return running


def idle_services(seen: Mapping[str, Any]) -> list[str]:
    """Return the supervisor and the balancer if they are installed but not running."""
    units = seen["units"]
    return [name for name in (SUPERVISOR_UNIT, BALANCER_UNIT) if name in units and units[name]["active"] not in RUNNING]


def start_service(host: Host) -> list[str]:
    """Start the supervisor and the balancer if they do not run; return those that were started."""
    started = idle_services(look(host, segments=False))
    for name in started:
        _start(host, name)
    return started


def restart_group(host: Host, *, check_mode: bool = False) -> dict[str, str]:
    """Ask the head's supervisor to restart its groups, even failed ones; return the epochs before."""
    seen = look(host, segments=False)
    unit = seen["units"].get(SUPERVISOR_UNIT)
    if unit is None:
        raise ServiceError(f"{SUPERVISOR_UNIT} is not on this host, expected it on the head: run playbooks/serve.yml")
    if check_mode:
        return epochs(seen["state"])
    if unit["active"] in RUNNING:
        result = host.run(["systemctl", "reload", SUPERVISOR_UNIT], timeout=60)
        if not result.ok:
            raise ServiceError(
                f"{SUPERVISOR_UNIT} did not accept the reload ({result.summary}): "
                f"see `journalctl --unit {SUPERVISOR_UNIT}`"
            )
    else:
        _start(host, SUPERVISOR_UNIT)
    return epochs(seen["state"])


def _start(host: Host, name: str) -> None:
    """Start a unit that does not run; a supervisor's memory of having given up is removed, so that it starts afresh."""
    if name == SUPERVISOR_UNIT and host.read_text(REMEMBERED_PATH) is not None:
        remove_durable(REMEMBERED_PATH)
    host.run(["systemctl", "reset-failed", name], timeout=15)
    result = host.run(["systemctl", "start", name], timeout=120)
    if not result.ok:
        raise ServiceError(f"{name} does not start ({result.summary}): see `journalctl --unit {name}`")


# --- waiting ------------------------------------------------------------------------------------------------


def wait_idle(
    host: Host,
    ports: Iterable[int],
    limit: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[list[str], float]:
    """Wait until nothing of serving is left; return what still is at the timeout, and the seconds it took."""
    started = clock()
    wanted = list(ports)
    while True:
        found = leftovers(look(host, wanted))
        if not found or clock() - started >= limit:
            return found, round(clock() - started, 1)
        pause(PAUSE_SECONDS)


def wait_serving(
    host: Host,
    limit: float,
    former: Mapping[str, str] | None = None,
    since: datetime.datetime | None = None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
    now: Now = utc_now,
) -> tuple[Standing, float]:
    """Follow the supervisor's state until every group serves, cannot serve any more, or the timeout is over."""
    started = clock()
    rounds = 0
    while True:
        state, _ = read_document(host.read_text(STATE_PATH), STATE_PATH)
        found = standing(state, now(), former=former, since=since, supervisor=_ended(host))
        # A supervisor that is just restarting, or that has not heard from every node yet, is no reason to stop.
        rounds = rounds + 1 if found.verdict in PATIENCE else 0
        over = clock() - started >= limit or rounds > PATIENCE.get(found.verdict, 0)
        if found.verdict == DONE or over:
            return found, round(clock() - started, 1)
        pause(PAUSE_SECONDS)


def _ended(host: Host) -> str:
    result = host.run(["systemctl", "show", f"--property={UNIT_PROPERTIES}", SUPERVISOR_UNIT], timeout=15)
    unit = parse_units(result.stdout).get(SUPERVISOR_UNIT)
    if unit is None:
        return f"not there ({CONFIG_PATH} is)" if host.read_text(CONFIG_PATH) is not None else "not there"
    return "" if unit["active"] in RUNNING else unit_words(unit)
