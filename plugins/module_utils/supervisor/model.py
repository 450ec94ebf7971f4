# SPDX-License-Identifier: Apache-2.0
"""What the supervisors of a group know, say to each other and decide: plain data, no effects.

A group is what serves together: the Ray nodes and the server of a cluster, the ranks of the engine's own multi-node
mode, one server alone, or one replica. The head's supervisor decides for the whole group and says so in an order; that
of every node, the head's own included, makes its units follow the order. Orders say what shall run, not what to do: one
that is lost, doubled or late does no harm.
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
    """How long the supervisor waits for what, in seconds. Whoever changes one knows why; the role's defaults say so."""

    start_timeout: float = 900.0
    """From the start of the last stage to the first completion; loading a model takes most of it."""
    progress_timeout: float = 900.0
    """Of these, without any progress of the engine on any node: then it hangs, and is ended early."""
    stage_timeout: float = 180.0
    """Until the units of one stage run."""
    stop_timeout: float = 120.0
    """Until everything of an ended epoch is gone and its memory is back; then it is ended by force and said so."""
    heartbeat_timeout: float = 20.0
    """Without a word from a node, or from the head: then it counts as gone."""
    probe_interval: float = 15.0
    """Between two questions to a server that answers."""
    probe_timeout: float = 60.0
    """Until a question counts as not answered."""
    failure_threshold: int = 2
    """Questions in a row that must fail."""
    backoff: float = 5.0
    """Before the second start; every further one waits twice as long."""
    max_backoff: float = 300.0
    start_attempts: int = 5
    """Failed starts in a row after which it stays down."""
    stable_after: float = 600.0
    """Serving for so long makes earlier failures forgotten."""


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
    """Every node of the group with its units; the head is one of them."""
    timing: Timing = field(default_factory=Timing)
    weights_bytes: int = 0
    """Of the weights that the ranks of one node hold; 0 where that is not known."""
    has_cache: bool = False
    """Whether what the engine compiles is kept on the nodes."""

    @property
    def stages(self) -> tuple[int, ...]:
        """The stages there are, in the order in which they start."""
        return tuple(sorted({unit.stage for units in self.nodes.values() for unit in units}))

    @property
    def last_stage(self) -> int:
        return self.stages[-1]


@dataclass(frozen=True)
class UnitReport:
    """A unit as systemd shows it."""

    active: bool = False
    """Running, or on its way there (activating)."""
    running: bool = False
    """Started for good: what comes after it may start."""
    failed: bool = False
    stopping: bool = False
    """On its way out (deactivating): neither active nor gone."""
    words: str = "inactive"
    """For a person: "failed (exit status 125)"."""
    last_line: str = ""
    """The last line it wrote, when it failed; without secrets."""


@dataclass(frozen=True)
class Loading:
    """What the engine's processes on a node have done since they were started. A hanging engine moves none of it."""

    known: bool = False
    """Whether the node could tell; where it could not, nobody may conclude that nothing happens."""
    bytes_read: int = 0
    child_seconds: int = 0
    """Processor time of the children that have ended: compilers. That of the engine itself says nothing, as a rank that
    waits for a lost one in a loop takes all of a processor."""
    cached_files: int = 0
    """Files among what was compiled."""
    lines: int = 0
    """Lines of a kind that was not written before: an engine that hangs may complain about it every minute."""
    last_line: str = ""
    """Without secrets."""


@dataclass(frozen=True)
class Held:
    """What a node has written down of its units (in /run: gone with the boot, as they are), before it acts on it."""

    epoch: str = ""
    """The epoch its units belong to; empty when no order started or took over what runs."""
    stage: int = NOTHING
    """Up to which stage it has started its units in that epoch. A unit is started once in an epoch, never again."""
    ended: str = ""
    """The epoch it has left last: whatever is ordered, it starts nothing in that one again."""


@dataclass(frozen=True)
class NodeReport:
    """What a node says of itself for one group, every few seconds and whenever something changes.

    `epoch`, `stage` and `ended` are what it held, and `seen` the order it had, *before* it looked at its units: a
    unit that is not there although its stage was started is a unit that died, and a node that is clean under an order
    was so after it had it.
    """

    node: str
    epoch: str = ""
    """The epoch in which its units were started; empty when nobody's order started them."""
    stage: int = NOTHING
    """Up to which stage it has started its units in that epoch."""
    ended: str = ""
    """The epoch it has left last."""
    seen: str = ""
    """The epoch of the order it had when it looked; empty without one."""
    units: Mapping[str, UnitReport] = field(default_factory=dict)
    clean: bool = True
    """Nothing of the group is left: no unit, no container."""
    ready: bool = True
    """It could start now: clean, memory free, image and weights as they were proven, not drained."""
    problems: tuple[str, ...] = ()
    """Why it is not ready, one sentence each: what was found, what was expected, what to do."""
    drained: bool = False
    memory_free: int = 0
    """Bytes the engine could take: of the machine on unified memory, of the fullest GPU otherwise."""
    boot: str = ""
    """Another value is another boot of the node."""
    loading: Loading = field(default_factory=Loading)
    """Looked at while the group starts."""

    @property
    def lasting(self) -> NodeReport:
        """Without what changes with every look: where this is another one, there is news."""
        return replace(self, memory_free=0, loading=Loading())


@dataclass(frozen=True)
class Probe:
    """What came of the last question to the server."""

    at: float
    """When it was answered, or given up."""
    answered: bool
    alive: bool = True
    """Whether an engine that has served before may be left alone: it refuses (a wrong key, a full queue) or is busy."""
    words: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Order:
    """What shall run now on every node of the group."""

    epoch: str
    stage: int = NOTHING
    """Units up to this stage run; those above do not. NOTHING: none runs. HOLD: all stay as they are."""
    boots: Mapping[str, str] = field(default_factory=dict)
    """The boot of every node in which the epoch began: a node that has booted since starts nothing in it."""
    adopt: bool = False
    """Units that run already and belong to no epoch are taken over into this one."""
    force: bool = False
    """Stopping has taken too long: what is left is killed."""
    measure: bool = False
    """Whether nodes tell how far their engine is."""
    discard: bool = False
    """What was compiled earlier is thrown away before the first unit starts."""
    loading: bool = False
    """It has not completed anything yet: the page cache that its files fill meanwhile is given back."""


@dataclass(frozen=True)
class Advance:
    """How far a start is."""

    bytes_read: int
    """On all nodes."""
    expected_bytes: int
    """0 where that is not known."""
    progress_at: float
    """When something moved last, by the clock that was handed in."""
    words: str
    """What moved."""
    limit_at: float
    """When the start is ended, whatever moves."""
    last_line: str = ""
    """What the engine said last on the node of the head, or on another one."""


@dataclass(frozen=True)
class Started:
    """How the start went of what serves now."""

    seconds: float
    """From the start of the last stage to the first completion."""
    bytes_read: int = 0
    read_seconds: float = 0.0
    """Until the last large read: about how long the weights took."""


@dataclass(frozen=True)
class Decision:
    """What the head's supervisor has decided at one moment."""

    order: Order
    phase: str
    """gathering | starting | warming | serving | stopping | backing-off | drained | failed"""
    why: str = ""
    """The phase in one sentence: whom it waits for and why, or why the last epoch ended."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Nodes it waits for, each with the reason."""
    attempts: int = 0
    """Failed starts in a row."""
    next_start: float | None = None
    """When the pause is over, by the clock that was handed in."""
    forgotten_at: float | None = None
    """When the failed starts are forgotten if it serves until then; None without any, or while it does not serve."""
    events: tuple[str, ...] = ()
    """What has just happened, for the journal and the history; each once."""
    ask: bool = False
    """Whether the server is to be asked now."""
    advance: Advance | None = None
    """While it starts, and the nodes can tell."""
    started: Started | None = None
    """While it serves, where this supervisor has seen the start."""
    remember: Mapping[str, Any] = field(default_factory=dict)
    """What must outlive this program and a boot; what was handed in where nothing is new."""
