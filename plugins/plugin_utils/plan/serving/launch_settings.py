# SPDX-License-Identifier: Apache-2.0
"""Check the settings file of a launch against the pinned engine's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import TENSORRT_SETTINGS_PATH
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.settings import check_planned, check_settings
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES, Command
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import PlannerContext
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.intent import Serving

WITH_FILE = "tensorrt-llm"
"""The engine that has such a file."""

ERRORS = {
    "settings.engine": "Only TensorRT-LLM reads a settings file; to the other engines everything is a flag.",
    "settings.schema": "Every key of the settings file is checked against the classes that read it; without their "
    "schema a plan cannot promise that the engine starts.",
}


def check_settings_file(
    engine: str,
    version: str | None,
    serving: Serving,
    launched: Mapping[str, Sequence[Command]],
    planner_context: PlannerContext,
    errors: PlanErrors,
) -> None:
    """Check every key of the rendered file; if there are no commands because of another error, the operator's keys."""
    own = serving.engine_settings
    if engine != WITH_FILE or PROFILES[serving.profile].engine != WITH_FILE:
        if own:
            errors.add(
                "settings.engine",
                f"firstlight_serving.engine_settings has {', '.join(map(str, own))}, with {engine}",
                "engine_settings is the settings file of TensorRT-LLM",
                "write them as flags of the engine, in firstlight_serving.flags",
            )
        return
    check_planned(own, errors)
    documents = _documents(launched) or [dict(own)]
    if not any(documents):
        return
    try:
        schema = planner_context.settings(engine, str(version))
    except CatalogError as error:
        errors.add(
            "settings.schema",
            error.problems[0],
            "a schema is what `python -m scripts.schemas` writes",
            "generate the schema again, see docs/engines.md",
        )
        return
    if schema is None:
        errors.add(
            "settings.schema",
            f"the catalog has no settings of {engine} {version or 'without a version'}",
            "the settings file is checked against the pinned version",
            f"generate engines/settings/{engine}-{version}.json, see docs/engines.md",
        )
        return
    for document in documents:
        check_settings(schema, document, planner_context.ranges(), errors)


def _documents(launched: Mapping[str, Sequence[Command]]) -> list[Any]:
    """Return the distinct files that the hosts get; usually one."""
    texts = {
        str(command["files"][TENSORRT_SETTINGS_PATH])
        for commands in launched.values()
        for command in commands
        if TENSORRT_SETTINGS_PATH in command["files"]
    }
    return [yaml.safe_load(text) for text in sorted(texts)]
