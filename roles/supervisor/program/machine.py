# SPDX-License-Identifier: Apache-2.0
"""The state machine with which the head's supervisor decides for its group: pure, and evaluated every second.

An epoch is one start of the group, from the order to begin until everything of it is gone again, and has a unique name.
The name of the next epoch is announced with the order to stop the last one: a node that reports itself clean under that
name has received the order, so that nothing of an older start can still come up unnoticed. Only when every node is
clean and ready under the new name does the group start, stage by stage.

An epoch continues only as a whole: a unit that ends for any reason, a node that is lost, rebooted or drained, or
repeated failed probes end it on all nodes. Nodes are waited for without a limit. Failed starts are counted, followed by
ever longer pauses, and end in giving up. A start without progress on any node hangs, and is ended before its timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    HOLD,
    NOTHING,
    Decision,
    GroupPlan,
    NodeReport,
    Order,
    Probe,
    Started,
)

from . import findings
from .loading import Progress
from .memory import Memory, recall
from .questions import Questions

Reports = Mapping[str, NodeReport]

_CACHED_AGAIN = 2
"""How many starts are left when the compile cache is discarded: one without it, and one with what that start
compiled."""


class Head:
    """Decides for the group of `plan`, of which this node is the head.

    `remembered` is the last `Decision.remember` that was persisted, or empty; `boot` is the head's boot ID; `epochs`
    returns a new unique name. Times are seconds of any monotonic clock.
    """

    def __init__(self, plan: GroupPlan, remembered: Mapping[str, Any], boot: str, epochs: Callable[[], str]) -> None:
        self._plan, self._boot, self._epochs = plan, boot, epochs
        self._memory = recall(remembered)
        self._events: list[str] = []
        self._looking = True
        self._phase = "gathering"
        self._order = Order("", HOLD)
        self._adopted = False
        self._since: float | None = None
        self._next_start: float | None = None
        self._because = ""
        self._missing: dict[str, str] = {}
        self._blamed: Mapping[str, str] = {}
        self._served_at: float | None = None
        self._stable = False
        self._questions = Questions()
        self._progress = Progress()
        self._started: Started | None = None
        self._unclean_since = 0.0
        self._waits: list[str] = []
        if self._memory.starting and self._memory.boot != boot:
            self._count(f"{plan.head} itself went down while the group was starting")

    def tick(
        self,
        now: float,
        reports: Reports,
        refusals: Mapping[str, str] | None = None,
        probe: Probe | None = None,
        restart: bool = False,
    ) -> Decision:
        """Decide what should run now.

        `reports` are those of all nodes heard within `heartbeat_timeout`, including this one; `refusals` say why others
        were rejected. `probe` is the result of the last probe, `restart` whether a restart was requested since the last
        tick.
        """
        reports = {node: report for node, report in reports.items() if node in self._plan.nodes}
        refusals = refusals or {}
        self._missing, self._waits = {}, []
        if self._since is None:
            self._since = now
        if restart:
            self._restart(now)
        if self._looking:
            self._look(now, self._since, reports, refusals)
        if self._phase in ("starting", "warming", "serving"):
            self._run(now, self._since, reports, refusals, probe)
        if self._phase in ("stopping", "backing-off", "gathering", "drained", "failed") and not self._looking:
            self._idle(now, self._since, reports, refusals)
        return self._decision(now)

    # --- startup -----------------------------------------------------------------------------------------------------

    def _look(self, now: float, since: float, reports: Reports, refusals: Mapping[str, str]) -> None:
        """Adopt a group that runs completely, or else stop it. Until that is decided, nothing is touched.

        A node whose supervisor cannot reach this one stops its units by itself after `heartbeat_timeout`, so that
        waiting longer than twice that cannot help.
        """
        fits, why_not = findings.adoptable(self._plan, reports)
        epoch = next((report.epoch for report in reports.values() if report.epoch), "")
        if epoch and (epoch == self._memory.ended or self._memory.given_up):
            fits, why_not = False, "the running units are of a start that has failed"
        self._missing = {
            node: findings.silent(node, self._plan, refusals) for node in self._plan.nodes if node not in reports
        }
        if fits and not self._missing:
            self._adopt(now, epoch, reports)
        elif not fits or now - since > 2 * self._plan.timing.heartbeat_timeout:
            why_not = why_not or f"no report from {findings.listed(self._missing)}"
            if self._memory.starting:
                self._count(f"the supervisor of {self._plan.head} was restarted during a start, and {why_not}")
            if any(not report.clean for report in reports.values()):
                self._say(f"stops the running units: {why_not}")
            self._because = f"not all of the group runs: {why_not}"
            self._quiet(now)

    def _adopt(self, now: float, epoch: str, reports: Reports) -> None:
        if epoch:
            self._say("everything runs already: continues with it")
        else:
            epoch = self._epochs()
            self._memory = Memory(starting=epoch, ended=self._memory.ended, boot=self._boot)
            self._say("everything was started outside the supervisor: takes it over")
        self._looking, self._adopted = False, True
        self._begin(now, Order(epoch, self._plan.last_stage, _boots(reports), adopt=True))
        self._warm(now)

    # --- a running epoch ---------------------------------------------------------------------------------------------

    def _run(
        self, now: float, since: float, reports: Reports, refusals: Mapping[str, str], probe: Probe | None
    ) -> None:
        drained = [node for node, report in reports.items() if report.drained]
        if drained:
            self._end(now, f"{findings.listed(drained)} was drained", counts=False)
            return
        finding = findings.ended(self._plan, self._order, self._adopted, reports, refusals)
        if finding:
            self._end(now, finding.words, counts=not finding.away or self._served_at is None)
            return
        if self._order.adopt and all(report.epoch == self._order.epoch for report in reports.values()):
            self._order = replace(self._order, adopt=False)
        if self._phase in ("starting", "warming"):
            self._progress.take(now, reports)
        if self._phase == "starting":
            self._climb(now, since, reports)
        if self._phase in ("warming", "serving"):
            self._listen(now, since, probe)

    def _climb(self, now: float, since: float, reports: Reports) -> None:
        """Start the next stage once everything of the last one runs."""
        self._waits = findings.waiting_for(self._plan, self._order, reports)
        limit = self._plan.timing.stage_timeout
        if self._waits and now - since > limit:
            self._end(now, f"{findings.listed(self._waits)} did not run within {limit:g} s", counts=True)
        elif not self._waits and self._order.stage == self._plan.last_stage:
            self._say("everything runs: waits for the first completion")
            self._warm(now)
        elif not self._waits:
            stage = min(stage for stage in self._plan.stages if stage > self._order.stage)
            self._order, self._since = replace(self._order, stage=stage), now
            self._progress.begin(now)
            self._waits = findings.waiting_for(self._plan, self._order, reports)
            self._say(f"starts {findings.units_of(self._plan, stage)}")

    def _listen(self, now: float, since: float, probe: Probe | None) -> None:
        """Evaluate the probes: only a completion makes it serve; `failure_threshold` failures in a row end it."""
        timing, asked = self._plan.timing, self._questions
        if asked.take(probe, timing.probe_interval) and self._phase == "warming":
            self._serve(now, since)
        if self._phase == "warming" and now - since > timing.start_timeout:
            self._end_late(now, f"there was no completion within {timing.start_timeout:g} s of the start")
        elif self._phase == "warming" and self._progress.hangs(now, self._plan):
            self._end_late(
                now, f"it hangs: nothing was read, compiled or logged on any node for {timing.progress_timeout:g} s"
            )
        elif self._phase == "serving" and asked.failures >= timing.failure_threshold:
            words = f"{asked.failures} requests in a row failed, the last: {asked.trouble}"
            self._end(now, words, counts=True)
        elif self._served_at is not None and not self._stable and now - self._served_at >= timing.stable_after:
            self._stable = True
            if self._memory.attempts:
                self._memory = replace(self._memory, attempts=0, reason="")
                self._say(f"has served for {timing.stable_after:g} s: earlier failures are forgotten")

    def _end_late(self, now: float, words: str) -> None:
        """End a start that exceeded its time, with the last known progress."""
        asked = self._questions.trouble
        seen = self._progress.last_seen(now, self._plan)
        more = [seen, f"the last request got: {asked}" if asked else ""]
        epoch = self._order.epoch
        self._end(now, "; ".join([words, *(part for part in more if part)]), counts=True)
        self._memory = replace(self._memory, late=epoch)

    def _begin(self, now: float, order: Order) -> None:
        self._order, self._since, self._phase = order, now, "starting"
        self._progress.begin(now)
        self._started = None
        self._next_start = self._served_at = None
        self._stable, self._because, self._blamed = False, "", {}

    def _warm(self, now: float) -> None:
        """Keep `_since`: the timeout for the first completion counts from the start of the last stage."""
        self._phase = "warming"
        self._questions.begin(now, served=self._order.epoch == self._memory.served)

    def _serve(self, now: float, since: float) -> None:
        self._phase, self._served_at = "serving", now
        self._started = None if self._adopted else self._progress.started(now, since)
        self._memory = replace(self._memory, starting="", served=self._order.epoch)
        trouble = self._questions.trouble
        self._say("serves" + (f", though the last request got: {trouble}" if trouble else ""))

    # --- ending an epoch, and between epochs -------------------------------------------------------------------------

    def _end(self, now: float, words: str, *, counts: bool) -> None:
        """End the epoch. One that served only briefly counts as failed too: serving once each time is still a loop."""
        self._say(f"ends this start on all nodes: {words}")
        epoch = self._order.epoch
        if counts and not self._stable:
            self._blamed = {} if self._served_at is None else self._order.boots
            self._count(words)
        self._memory = replace(self._memory, starting="", ended=epoch)
        self._because = words
        self._quiet(now)

    def _count(self, words: str) -> None:
        most = self._plan.timing.start_attempts
        self._memory = self._memory.after_failure(words, most)
        self._say(f"failed start {self._memory.attempts} of at most {most}: {words}")

    def _quiet(self, now: float) -> None:
        self._looking = self._adopted = False
        self._order = Order(self._epochs(), NOTHING)
        self._phase, self._next_start = "stopping", None
        self._since = self._unclean_since = now

    def _restart(self, now: float) -> None:
        self._say("a restart was requested: earlier failures are forgotten")
        running = self._phase in ("starting", "warming", "serving")
        self._memory = Memory(ended=self._order.epoch if running else self._memory.ended)
        self._because, self._blamed = "a restart was requested", {}
        if running or self._looking:
            self._quiet(now)
        else:
            self._next_start = None
            self._phase = "stopping"

    def _idle(self, now: float, since: float, reports: Reports, refusals: Mapping[str, str]) -> None:
        timing = self._plan.timing
        left = findings.unclean(self._plan, self._order.epoch, reports)
        self._push(now, left)
        if self._phase == "stopping":
            overdue = bool(self._memory.given_up) and now - since > 2 * timing.stop_timeout
            if left and not overdue:
                reasons = findings.missing(self._plan, self._order.epoch, reports, {})
                self._missing = {node: reasons[node] for node in reasons if node in left}
                return
            self._phase = "backing-off"
            if self._memory.given_up:
                self._phase = "failed"
                self._say(findings.given_up(self._memory.attempts, self._memory.given_up))
            elif self._memory.attempts:
                pause = timing.backoff * 2 ** min(self._memory.attempts - 1, 30)
                self._next_start = now + min(pause, timing.max_backoff)
        if self._phase == "failed":
            return
        drained = any(report.drained for report in reports.values())
        if not drained and self._next_start is not None and now < self._next_start:
            self._phase = "backing-off"
            return
        self._phase = "drained" if drained else "gathering"
        self._missing = findings.missing(self._plan, self._order.epoch, reports, refusals)
        if not self._missing:
            self._start(now, reports)

    def _push(self, now: float, left: list[str]) -> None:
        """Kill what has not stopped in time; the order goes to all nodes, as a clean node has nothing to kill."""
        if not left:
            self._unclean_since = now
        force = now - self._unclean_since > self._plan.timing.stop_timeout
        if force and not self._order.force:
            self._say(
                f"{findings.listed(left)} did not stop within {self._plan.timing.stop_timeout:g} s: "
                "what is left is killed"
            )
        self._order = replace(self._order, force=force)

    def _start(self, now: float, reports: Reports) -> None:
        rebooted = [node for node, boot in self._blamed.items() if reports[node].boot != boot]
        if rebooted:
            self._memory = replace(self._memory, attempts=max(0, self._memory.attempts - 1))
            self._say(
                f"{findings.listed(rebooted)} was rebooted meanwhile: this explains the last failure, "
                "which does not count"
            )
        self._memory = replace(self._memory, starting=self._order.epoch, boot=self._boot)
        discard = self._is_cache_suspect()
        self._begin(now, Order(self._order.epoch, self._plan.stages[0], _boots(reports), discard=discard))
        if discard:
            self._say(f"{self._memory.attempts} starts have failed: the compile cache is discarded")
        self._waits = findings.waiting_for(self._plan, self._order, reports)
        self._say(f"all nodes are ready: starts {findings.units_of(self._plan, self._order.stage)}")

    def _is_cache_suspect(self) -> bool:
        """Whether the next start should discard the compile cache.

        A cache that was truncated by a power failure, or that the engine cannot read, fails every start alike. After a
        timeout it is kept, as that start has compiled more for the next one.
        """
        failed, most = self._memory.attempts, self._plan.timing.start_attempts
        return self._plan.has_cache and not self._memory.late and failed > 0 and failed == most - _CACHED_AGAIN

    # --- reporting ---------------------------------------------------------------------------------------------------

    def _say(self, event: str) -> None:
        self._events.append(event)

    def _why(self) -> str:
        waits = "; ".join(f"{node}: {reason}" for node, reason in self._missing.items())
        if self._looking:
            return f"checks whether the group is already running, waits for {waits or 'the first reports'}"
        doing = findings.Doing(waits, tuple(self._waits), self._because, self._questions.trouble)
        return findings.why(self._phase, doing, self._memory, self._plan.timing.start_attempts)

    def _forgotten_at(self) -> float | None:
        if self._phase != "serving" or self._served_at is None or not self._memory.attempts:
            return None
        return self._served_at + self._plan.timing.stable_after

    def _decision(self, now: float) -> Decision:
        events, self._events = tuple(self._events), []
        starts = self._phase in ("starting", "warming") and self._since is not None
        return Decision(
            order=replace(self._order, measure=starts, loading=self._phase in ("starting", "warming")),
            phase=self._phase,
            why=self._why(),
            missing=self._missing,
            attempts=self._memory.attempts,
            next_start=self._next_start if self._phase == "backing-off" else None,
            forgotten_at=self._forgotten_at(),
            events=events,
            ask=self._phase in ("warming", "serving") and self._questions.is_due(now),
            advance=self._progress.advance(self._since or now, self._plan) if starts else None,
            started=self._started if self._phase == "serving" else None,
            remember=self._memory.as_data(),
        )


def _boots(reports: Reports) -> dict[str, str]:
    return {node: report.boot for node, report in reports.items()}
