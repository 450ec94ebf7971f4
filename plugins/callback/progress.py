# SPDX-License-Identifier: Apache-2.0
"""Human-readable standard output of a run: phase, host, elapsed time and what it waits for."""

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: Shows phases, what is being waited for, and where the time went
version_added: 0.1.0
author: The Firstlight authors (!UNKNOWN)
description:
  - Prints one heading for each play (a phase), one line for each change, one readable block for each failure,
    and a recap with the time every phase took.
  - On a terminal a live line says which hosts are being waited for, for which task and for how long.
    Without a terminal (a pipe, a log file, a CI job) the output is plain lines, and a line every
    O(heartbeat) seconds says what is still waited for.
  - Of a result only its message is shown, never its arguments; what a task hides with C(no_log) stays hidden.
    Tasks that changed nothing are shown only with C(-v).
    Use C(ANSIBLE_STDOUT_CALLBACK=default) to see full results.
requirements:
  - Set as C(stdout_callback) in the configuration.
options:
  heartbeat:
    description:
      - Without a terminal, seconds between two lines about the same task that is still waited for.
        V(0) turns them off.
    type: float
    default: 20
    env:
      - name: FIRSTLIGHT_PROGRESS_HEARTBEAT
    ini:
      - section: callback_firstlight_progress
        key: heartbeat
  live:
    description:
      - Whether a terminal gets a live line. Turned off, a terminal is treated like a log file.
    type: bool
    default: true
    env:
      - name: FIRSTLIGHT_PROGRESS_LIVE
    ini:
      - section: callback_firstlight_progress
        key: live
  timings_path:
    description:
      - A file to write the time of every phase and the counters of every host to at the end, as JSON.
    type: path
    env:
      - name: FIRSTLIGHT_TIMINGS
    ini:
      - section: callback_firstlight_progress
        key: timings_path
"""

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.plugins.callback import CallbackBase
from ansible.template import Templar
from ansible_collections.firstlight.cluster.plugins.module_utils.host import write_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.blocks import Failure, Line
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.display import (
    SPINNER_ASCII,
    SPINNER_UNICODE,
    Progress,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.events import (
    counters,
    debug_lines,
    delegated_to,
    host_label,
    identify,
    task_name,
    task_place,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.notes import (
    close_notes,
    open_notes,
    read_notes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.results import (
    changed_items,
    is_hidden,
    message_lines,
    ssh_command,
    unreachable_check,
    unreachable_reason,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import clean, clean_all, clean_line
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.attendance import rack_groups

REDRAW_SECONDS = 0.25
CLEAR_LINE = "\r\x1b[K"

COLOURS = {
    "heading": "COLOR_HIGHLIGHT",
    "ok": "COLOR_OK",
    "changed": "COLOR_CHANGED",
    "skipped": "COLOR_SKIP",
    "warning": "COLOR_WARN",
    "failed": "COLOR_ERROR",
    "unreachable": "COLOR_UNREACHABLE",
}

DEBUG_ACTIONS = {"debug", "ansible.builtin.debug", "ansible.legacy.debug"}
NOTING_ACTIONS = {"firstlight.cluster.compare"}
"""Actions whose `msg` is shown."""
SPEAKS_FOR_OTHERS = "progress_speaks_for_others"
"""Variable of a task that fails on a host because other hosts are out."""
PROMPT_ACTIONS = {"pause", "ansible.builtin.pause", "ansible.legacy.pause"}
SSH_CONNECTIONS = {"ssh", "ansible.builtin.ssh", "ansible.legacy.ssh", "smart", "paramiko_ssh"}
# The only host variables that are read: none of them holds a secret.
SSH_VARIABLES = (
    "ansible_connection",
    "ansible_host",
    "ansible_port",
    "ansible_user",
    "ansible_ssh_private_key_file",
    "ansible_private_key_file",
    "ansible_ssh_common_args",
)


class CallbackModule(CallbackBase):
    """Translates Ansible's events for `Progress` and writes its output.

    Three threads call in: Ansible's main thread and its result thread with events, and our ticker. All of them work
    under Ansible's own display lock. Ansible also holds that lock while it forks a worker, so that a worker never
    inherits a half-drawn line or a lock that nobody will release.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "firstlight.cluster.progress"

    def __init__(self, display: Any = None, options: dict[str, Any] | None = None) -> None:
        super().__init__(display=display, options=options)
        self._owner = os.getpid()
        self._write = self._display.display
        self._lock: Any = getattr(self._display, "_lock", None) or threading.RLock()
        self._progress = Progress(time.monotonic, self._display.verbosity)
        self._play: Any = None
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None
        self._is_live = False
        self._drawn = False
        self._frame = 0
        self._notes = ""

    # -- output --

    def _emit(self, lines: Iterable[Line], tidy: Callable[[str], str] = clean_line) -> None:
        """Print permanent lines and flush them, so that a followed log does not lag behind."""
        lines = list(lines)
        if lines:
            self._clear()
        for line in lines:
            self._write(tidy(line.text), color=self._colour(line) if line.text else None)
        if lines:
            sys.stdout.flush()

    @staticmethod
    def _colour(line: Line) -> str | None:
        """Return the operator's configured colour; Ansible ignores it without a terminal or with ANSIBLE_NOCOLOR."""
        setting = COLOURS.get(line.tone)
        return str(constants.config.get_config_value(setting)) if setting else None

    def _option(self, name: str) -> Any:
        return self._plugin_options[name]

    def _clear(self) -> None:
        """Erase the live line, so that a permanent line can be printed in its place."""
        if self._drawn:
            self._drawn = False
            sys.stdout.write(CLEAR_LINE)
            sys.stdout.flush()

    def _draw(self) -> None:
        """Redraw the live line; the cursor stays on it."""
        encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
        spinner = SPINNER_UNICODE if encoding.startswith("utf") else SPINNER_ASCII
        self._frame += 1
        text = self._progress.status(self._columns() - 1, self._frame, spinner)
        if not text:
            self._clear()
            return
        self._drawn = True
        sys.stdout.write(CLEAR_LINE + text)
        sys.stdout.flush()

    def _columns(self) -> int:
        """Return the current width: a terminal may be resized during a run."""
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _hook_display(self) -> None:
        """Make every message that is not ours (warnings, -vvv, other plugins) clear the live line first.

        Most of them contain text from hosts, which Ansible prints as is: terminal control sequences are removed.
        """

        def display(msg: str, *args: Any, **kwargs: Any) -> None:
            if os.getpid() != self._owner:
                self._write(msg, *args, **kwargs)
                return
            with self._lock:
                self._clear()
                self._write(clean(msg), *args, **kwargs)
                sys.stdout.flush()

        vars(self._display)["display"] = display

    # -- the ticker --

    def _start(self) -> None:
        """Start the ticker, once per run, in the process that prints."""
        if self._ticker is not None or os.getpid() != self._owner:
            return
        asks = bool(context.CLIARGS.get("step"))
        self._is_live = (
            bool(self._option("live")) and not asks and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        )
        self._hook_display()
        self._stop.clear()
        with contextlib.suppress(OSError):
            self._notes = open_notes()
        self._ticker = threading.Thread(target=self._run_ticker, name="firstlight-progress", daemon=True)
        self._ticker.start()
        atexit.register(self._finish)

    def _run_ticker(self) -> None:
        while not self._stop.wait(REDRAW_SECONDS):
            with self._lock:
                if self._stop.is_set():
                    return
                self._tick()

    def _tick(self) -> None:
        """Print failures that are due, then the live line or, in a log, a heartbeat."""
        self._emit(self._progress.tick())
        if self._notes:
            self._progress.note(read_notes(self._notes))
        if self._is_live:
            self._draw()
        else:
            self._emit(self._progress.heartbeat(float(self._option("heartbeat"))))

    def _finish(self) -> None:
        """Stop the ticker and leave a clean terminal, also when the run is interrupted."""
        if self._ticker is None or os.getpid() != self._owner:
            return
        self._stop.set()
        self._ticker.join(timeout=2)
        self._ticker = None
        if self._notes:
            close_notes(self._notes)
            self._notes = ""
        with self._lock:
            self._clear()
            self._emit(self._progress.flush_failures())
            vars(self._display).pop("display", None)
        atexit.unregister(self._finish)

    # -- the course of a run --

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """A playbook starts; imported playbooks are already part of it, so its plays can be counted."""
        with self._lock:
            self._emit(self._progress.begin(len(playbook.get_plays()), bool(context.CLIARGS.get("check"))))

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """A phase starts."""
        with self._lock:
            self._play = play
            self._progress.know_racks(self._racks())
            if play.hosts:
                self._emit(self._progress.start_phase(play.get_name(), str(play._uuid)))
            else:
                self._emit(self._progress.pass_over())
        self._start()

    def v2_playbook_on_no_hosts_matched(self) -> None:
        """A play has no hosts: none has work in this phase, or its group is empty."""
        with self._lock:
            if self._play.hosts:
                self._emit([Line("    No host of the inventory belongs to this phase.", "skipped")])

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        """The play cannot continue, because all hosts failed or more than it allows."""
        with self._lock:
            self._emit(self._progress.nobody_left())

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """A task is about to start on hosts."""
        del is_conditional  # Ansible passes it by name
        with self._lock:
            self._emit(self._progress.announce_task(str(task._uuid), task_name(task)))

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """A handler is about to run."""
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """A task starts on a host."""
        with self._lock:
            interactive = task.action in PROMPT_ACTIONS
            self._progress.start_task(host.get_name(), str(task._uuid), task_name(task), interactive)
            if interactive:
                self._clear()

    def v2_runner_retry(self, result: Any) -> None:
        """A task with `until` is retried."""
        with self._lock:
            outcome = result.result
            self._progress.retry(
                result.host.get_name(), int(outcome.get("attempts", 1)), int(outcome.get("retries", 1))
            )

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The run is over."""
        with self._lock:
            hosts = {host: counters(stats.summarize(host)) for host in stats.processed}
            self._emit(self._progress.recap(hosts))
            self._write_timings(hosts)
        self._finish()

    # -- results --

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task succeeded on a host."""
        with self._lock:
            host, key, name = identify(result)
            self._handle_warnings(result.result)
            label = host_label(result)
            said = result.task.action in DEBUG_ACTIONS
            said = said or (result.task.action in NOTING_ACTIONS and "msg" in result.result)
            if said and not is_hidden(result.result):
                lines = self._progress.said(host, key, name, debug_lines(result, self._hide_in_debug), label)
            elif result.is_changed():
                would = bool(result.task.check_mode)
                detail = changed_items(result.result)
                lines = self._progress.changed(host, key, name, label, detail, would)
            else:
                lines = self._progress.ok(host, key, name, label)
            self._emit(lines)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """A task did not apply to a host."""
        with self._lock:
            self._handle_warnings(result.result)
            self._emit(self._progress.skipped(*identify(result), host_label(result)))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A task failed on a host."""
        with self._lock:
            host, key, name = identify(result)
            hidden = is_hidden(result.result)
            self._handle_warnings(result.result)
            if self._display.verbosity >= 3 and not hidden:
                self._handle_exception(result.result)
            message = message_lines(result.result, verbose=self._display.verbosity > 0)
            failure = Failure(host, key, name, tuple(message), where=task_place(result.task))
            if result.task.vars.get(SPEAKS_FOR_OTHERS) and not ignore_errors:
                self._emit(self._progress.all_hosts_required(failure))
            elif ignore_errors:
                self._emit(self._progress.ignored(failure, changed=result.is_changed()))
            else:
                self._emit(self._progress.failed(failure))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """A host did not answer."""
        with self._lock:
            host, key, name = identify(result)
            self._handle_warnings(result.result)
            target, variables = self._target(result)
            reason = unreachable_reason(message_lines(result.result))
            title, remedy = "answer", "Do: check its power and network, then run this again"
            if str(variables.get("ansible_connection") or "ssh") in SSH_CONNECTIONS:
                title = "answer SSH" if target == host else f"reach {target} by SSH"
                remedy = f"Do: {unreachable_check(reason)}, then try: {ssh_command(target, variables)}"
            failure = Failure(host, key, name, reason, unreachable=True, title=title, remedy=remedy)
            ignored = bool(result.task.ignore_unreachable)
            self._emit(self._progress.ignored(failure) if ignored else self._progress.failed(failure))

    def v2_runner_item_on_ok(self, result: Any) -> None:
        """An item of a loop is done; the task's own result covers the rest."""
        with self._lock:
            self._handle_warnings(result.result)
            self._progress.item_done(result.host.get_name())
            if result.task.action in DEBUG_ACTIONS and not is_hidden(result.result):
                shown = result.host.get_name().ljust(self._progress.host_width)
                self._emit(Line(f"  {shown}  {text}") for text in debug_lines(result, self._hide_in_debug))

    def v2_runner_item_on_failed(self, result: Any) -> None:
        """An item of a loop failed; the block at the end of the loop names it."""
        with self._lock:
            self._handle_warnings(result.result)
            self._progress.item_done(result.host.get_name())

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        """An item of a loop did not apply."""
        with self._lock:
            self._handle_warnings(result.result)
            self._progress.item_done(result.host.get_name())

    def v2_on_file_diff(self, result: Any) -> None:
        """Print a diff for --diff, with the host's name, because several hosts may differ."""
        with self._lock:
            outcomes = [result.result]
            if result.task.loop and isinstance(result.result.get("results"), list):
                outcomes = [item for item in result.result["results"] if isinstance(item, Mapping)]
            for outcome in outcomes:
                if not outcome.get("diff") or not outcome.get("changed") or is_hidden(outcome):
                    continue
                # Cleaned before Ansible adds its colours.
                diff = str(CallbackBase._get_diff(self, clean_all(outcome["diff"])))
                if diff.strip():
                    self._emit([Line(f"  {host_label(result)}  diff  {task_name(result.task)}")])
                    self._emit([Line(diff.rstrip("\n"))], tidy=str)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        """Print which file is included on which hosts, in verbose runs only."""
        if self._display.verbosity > 0:
            with self._lock:
                hosts = ", ".join(host.name for host in included_file._hosts)
                self._emit([Line(f"  {hosts}  included  {included_file._filename}", "skipped")])

    # -- reading Ansible's objects --

    def _racks(self) -> dict[str, list[str]]:
        """Return the racks of the inventory with their hosts in the cluster."""
        manager = self._play.get_variable_manager()
        inventory = getattr(manager, "_inventory", None)
        return rack_groups(inventory.get_groups_dict()) if inventory is not None else {}

    def _target(self, result: Any) -> tuple[str, dict[str, Any]]:
        """Return the host that did not answer and its connection variables, for the command to suggest."""
        host = str(result.host.get_name())
        delegate = delegated_to(result)
        if delegate:
            return delegate, dict(result.result.get("_ansible_delegated_vars") or {})
        variables: dict[str, Any] = {}
        if self._play is not None and self._play.get_variable_manager() is not None:
            known = self._play.get_variable_manager().get_vars(play=self._play, host=result.host)
            templar = Templar(loader=self._play.get_loader(), variables=known)
            for name in SSH_VARIABLES:
                if known.get(name) is not None:
                    with contextlib.suppress(AnsibleError):
                        variables[name] = templar.template(known[name])
        if not variables.get("ansible_user") and result.task.remote_user:
            variables["ansible_user"] = result.task.remote_user
        variables.setdefault("ansible_connection", result.task.connection or "ssh")
        return host, variables

    def _write_timings(self, hosts: Mapping[str, Mapping[str, int]]) -> None:
        """Write the timings as JSON, atomically."""
        path = self._option("timings_path")
        if not path:
            return
        text = json.dumps(self._progress.timings(hosts), indent=2) + "\n"
        try:
            write_file(path, text, 0o644)
        except OSError as error:
            self._display.warning(
                f"The timings were not written: {error}. FIRSTLIGHT_TIMINGS must name a file in a directory "
                "that exists and can be written; the run itself is not affected."
            )
