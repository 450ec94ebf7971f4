# SPDX-License-Identifier: Apache-2.0
"""Everything the planner knows besides the intent: the catalog, the roles' interfaces, and the engines' flags."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import Workload, load_workloads
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.envelopes import Envelope, load_envelopes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import Catalog, CatalogError, load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.caches import load_caches
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.containers import load_containers
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.ranges import Meaningful, load_ranges
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import Replaced, load_replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import (
    EngineSchema,
    available,
    load_schema,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.settings_schema import (
    SettingsSchema,
    load_settings,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import RoleInterface
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.hazards import load_hazards

Known = TypeVar("Known")


@dataclass(frozen=True)
class PlannerContext:
    """The planner's knowledge, loaded once."""

    catalog: Catalog
    roles: Mapping[str, RoleInterface] = field(default_factory=dict)
    hazards: Sequence[Mapping[str, Any]] = ()
    envelopes: Sequence[Envelope] = ()
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    replaced: Replaced = field(default_factory=lambda: Replaced((), (), {}))
    schemas: Sequence[str] = ()
    """Engines whose flags are known, as vllm==0.32.0."""
    schema: Callable[[str, str], EngineSchema | None] = lambda *_: None
    """Load the flags of one engine version; called on demand, as a schema is large."""
    settings: Callable[[str, str], SettingsSchema | None] = lambda *_: None
    """Load the keys of an engine version's settings file; None if it has no such file or is not in the catalog."""
    ranges: Callable[[], Mapping[str, Meaningful]] = dict
    """Load the meaningful numbers of flags, by the flag's name."""
    caches: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By engine, where it keeps what it compiles: variables with places below one directory."""
    containers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By engine, what its container may do, and where it writes."""


def load_planner_context(directories: Iterable[str | Path], roles: Mapping[str, RoleInterface]) -> PlannerContext:
    """Load everything from these catalog directories, earlier ones first. Raises CatalogError with all problems."""
    places = [Path(directory) for directory in directories]
    engines = [place / "engines" for place in places]
    problems: list[str] = []

    def read(load: Callable[[list[Path]], Known], where: list[Path], otherwise: Known) -> Known:
        try:
            return load(where)
        except CatalogError as error:
            problems.extend(error.problems)
            return otherwise

    catalog: Catalog = read(load_catalog, places, {})
    replaced = read(load_replaced, engines, Replaced((), (), {}))
    caches: dict[str, dict[str, str]] = read(load_caches, engines, {})
    containers: dict[str, dict[str, Any]] = read(load_containers, engines, {})
    hazards, wrong = load_hazards(places)
    envelopes, unusable = load_envelopes(places)
    problems += wrong + unusable
    workloads: dict[str, Workload] = read(load_workloads, places, {})
    if problems:
        raise CatalogError(problems)
    return PlannerContext(
        catalog=catalog,
        roles=roles,
        hazards=hazards,
        envelopes=envelopes,
        workloads=workloads,
        replaced=replaced,
        schemas=available(engines),
        schema=functools.cache(functools.partial(load_schema, engines)),
        settings=lambda engine, version: load_settings(engines, engine, version),
        ranges=lambda: load_ranges(engines),
        caches=caches,
        containers=containers,
    )
