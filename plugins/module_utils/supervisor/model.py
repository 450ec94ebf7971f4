# SPDX-License-Identifier: Apache-2.0
"""What the supervisors of a group know, exchange and decide: plain data without side effects.

A group is what serves together: the Ray nodes and the server of a cluster, the ranks of the engine's own multi-node
mode, a single server, or one replica. The head's supervisor decides for the whole group and issues orders; the
supervisor of every node, including the head, makes its units follow them. Orders state what should run, not what to do:
a lost, duplicated or late one does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

NOTHING = -1
"""The stage of an order under which no unit of the group may run."""

HOLD = -2
"""The stage of an order under which a node leaves its units as they are: the head has not decided yet."""


@dataclass(frozen=True)
class Timing:
    """The supervisor's timeouts and intervals in seconds. The defaults of the role explain them."""

    start_timeout: float = 900.0
    """From the start of the last stage to the first completion, most of which is loading the model."""
    progress_timeout: float = 900.0
    """Without progress of the engine on any node: then it hangs, and is ended before `start_timeout`."""
    stage_timeout: float = 180.0
    """Until the units of one stage run."""
    stop_timeout: float = 120.0
    """Until everything of an ended epoch is gone and its memory is free; then it is killed, and that is logged."""
    heartbeat_timeout: float = 20.0
    """Without a message from a node, or from the head: then it counts as lost."""
    probe_interval: float = 15.0
    """Between two probes of a server that answers."""
    probe_timeout: float = 60.0
    """Until a probe counts as failed."""
    failure_threshold: int = 2
    """Consecutive failed probes that end an epoch."""
    backoff: float = 5.0
    """Before the second start; the pause doubles with every further one."""
    max_backoff: float = 300.0
    start_attempts: int = 5
    """Consecutive failed starts after which the group is given up."""
    stable_after: float = 600.0
    """After serving for this long, earlier failures are forgotten."""


@dataclass(frozen=True)
class UnitPlan:
    """One unit of a group on one node."""

    unit: str
    stage: int = 0
    """Units of one stage start together, on all nodes, once those of the stage before run."""
    container: str = ""
    """The container it runs; empty for a process of a virtual environment."""


@dataclass(frozen=True)
class GroupPlan:
    """A group as its head's supervisor sees it."""

    name: str
    head: str
    nodes: Mapping[str, tuple[UnitPlan, ...]]
    """Every node of the group, including the head, with its units."""
    timing: Timing = field(default_factory=Timing)
    weights_bytes: int = 0
    """Bytes of the weights that the ranks of one node hold; 0 if unknown."""
    has_cache: bool = False
    """Whether the nodes keep a compile cache."""

    @property
    def stages(self) -> tuple[int, ...]:
        """Return the stages in the order in which they start."""
        return tuple(sorted({unit.stage for units in self.nodes.values() for unit in units}))

    @property
    def last_stage(self) -> int:
        return self.stages[-1]


@dataclass(frozen=True)
class UnitReport:
    """A unit as systemd reports it."""

    active: bool = False
    """Running, or starting (activating)."""
    running: bool = False
    """Started completely: later stages may start."""
    failed: bool = False
    stopping: bool = False
    """Stopping (deactivating): neither active nor gone."""
    words: str = "inactive"
    """For a person: "failed (exit status 125)"."""
    last_line: str = ""
    """The last line it logged if it failed, without secrets."""


@dataclass(frozen=True)
class Loading:
    """What the engine's processes on a node have done since their start. None of it changes if the engine hangs."""

    known: bool = False
    """Whether the node could measure it; if not, the head must not conclude that nothing happens."""
    bytes_read: int = 0
    child_seconds: int = 0
    """Processor time of children that have ended, such as compilers. That of the engine itself shows nothing, because a
    rank that waits for a lost one in a busy loop uses a whole processor."""
    cached_files: int = 0
    """Files in the compile cache."""
    lines: int = 0
    """Log lines of new kinds: an engine that hangs may complain about it every minute."""
    last_line: str = ""
    """Without secrets."""


@dataclass(frozen=True)
class Held:
    """A node's record of its units, written to /run before it acts on it.

    Like the units, it is gone after a reboot.
    """

    epoch: str = ""
    """The epoch its units belong to; empty if no order started or adopted them."""
    stage: int = NOTHING
    """The last stage whose units it has started in that epoch. A unit is started only once in an epoch."""
    ended: str = ""
    """The epoch it has left last, in which it starts nothing again, whatever the order."""


@dataclass(frozen=True)
class NodeReport:
    """A node's report on one group, sent every few seconds and whenever something changes.

    `epoch`, `stage` and `ended` are what it held, and `seen` the order it had, *before* it inspected its units. So a
    unit that is missing although its stage was started has died, and a node that is clean under an order became so
    after receiving it.
    """

    node: str
    epoch: str = ""
    """The epoch in which its units were started; empty if no order started them."""
    stage: int = NOTHING
    """The last stage whose units it has started in that epoch."""
    ended: str = ""
    """The epoch it has left last."""
    seen: str = ""
    """The epoch of the order it had at the inspection; empty without one."""
    units: Mapping[str, UnitReport] = field(default_factory=dict)
    clean: bool = True
    """Nothing of the group is left: no unit, no container."""
    ready: bool = True
    """Whether it could start now: clean, enough free memory, image and weights verified, not drained."""
    problems: tuple[str, ...] = ()
    """Why it is not ready, one sentence each: what was found, what was expected, what to do."""
    drained: bool = False
    memory_free: int = 0
    """Bytes the engine could take: of the machine for unified memory, of the fullest GPU otherwise."""
    boot: str = ""
    """The boot ID of the node."""
    loading: Loading = field(default_factory=Loading)
    """Measured while the group starts."""

    @property
    def lasting(self) -> NodeReport:
        """The report without what changes every time: if this differs, there is news."""
        return replace(self, memory_free=0, loading=Loading())


@dataclass(frozen=True)
class Probe:
    """The result of the last probe of the server."""

    at: float
    """When the probe was answered or timed out."""
    answered: bool
    alive: bool = True
    """Whether an engine that has served before may be left alone: it refuses (a wrong key, a full queue) or is busy."""
    words: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Order:
    """What should run now on every node of the group."""

    epoch: str
    stage: int = NOTHING
    """Units up to this stage run; those above do not. NOTHING: none runs. HOLD: all stay as they are."""
    boots: Mapping[str, str] = field(default_factory=dict)
    """The boot ID of every node when the epoch began: a node that has rebooted since starts nothing in it."""
    adopt: bool = False
    """Units that already run and belong to no epoch are adopted into this one."""
    force: bool = False
    """Stopping has taken too long: kill what is left."""
    measure: bool = False
    """Whether nodes should measure the progress of their engine."""
    discard: bool = False
    """Whether to discard the compile cache before the first unit starts."""
    loading: bool = False
    """There was no completion yet: nodes drop the page cache that fills while files are loaded."""


@dataclass(frozen=True)
class Advance:
    """The progress of a start."""

    bytes_read: int
    """On all nodes."""
    expected_bytes: int
    """0 if unknown."""
    progress_at: float
    """When something changed last, by the clock passed in."""
    words: str
    """What changed."""
    limit_at: float
    """When the start is ended in spite of progress."""
    last_line: str = ""
    """The engine's last log line on the head, or else on another node."""


@dataclass(frozen=True)
class Started:
    """Figures of the start of what serves now."""

    seconds: float
    """From the start of the last stage to the first completion."""
    bytes_read: int = 0
    read_seconds: float = 0.0
    """Until the last large read: about how long the weights took to load."""


@dataclass(frozen=True)
class Decision:
    """A decision of the head's supervisor."""

    order: Order
    phase: str
    """gathering | starting | warming | serving | stopping | backing-off | drained | failed"""
    why: str = ""
    """The phase in one sentence: what it waits for and why, or why the last epoch ended."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The nodes it waits for, each with the reason."""
    attempts: int = 0
    """Failed starts in a row."""
    next_start: float | None = None
    """When the pause is over, by the clock passed in."""
    forgotten_at: float | None = None
    """When the failed starts are forgotten if it serves until then; None if there are none, or while it does not
    serve."""
    events: tuple[str, ...] = ()
    """New events for the journal and the history, each reported once."""
    ask: bool = False
    """Whether to probe the server now."""
    advance: Advance | None = None
    """While it starts, and the nodes can measure it."""
    started: Started | None = None
    """While it serves, if this supervisor has observed the start."""
    remember: Mapping[str, Any] = field(default_factory=dict)
    """What must survive restarts and reboots; unchanged from the input if there is nothing new."""
