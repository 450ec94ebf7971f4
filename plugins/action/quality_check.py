# SPDX-License-Identifier: Apache-2.0
"""The action `quality_check`: ask fixed prompts, store the answers, and compare them with the accepted ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import SERVER_ENVIRONMENT_PATH
from ansible_collections.firstlight.cluster.plugins.modules.quality_check import ARGUMENTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import configuration_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prompts import Prompts, load_prompts
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import state_directory
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors, explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.bench.cluster import (
    catalogs_of,
    cluster_of,
    head_of,
    now,
    plans_of,
    run_name,
    server_url,
    unusable_place,
    write_document,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.quality import read_quality
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.notes import note
from ansible_collections.firstlight.cluster.plugins.plugin_utils.quality.assessment import (
    FORMAT,
    NO_REFERENCE,
    PASSED,
    assess,
    assessment_lines,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.quality.reference import (
    ANSWERS,
    DIRECTORY,
    find_reference,
    read_answers,
    reference_path,
    related_models,
)


class QualityError(ValueError):
    """The check cannot ask or compare; the message includes the remedy."""


class ActionModule(ActionBase):
    """Asks the server of the task's host, and assesses whether its answers are still good."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask, store and assess; errors that the operator can fix become a single message."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(ARGUMENTS)
        try:
            found = self._check(arguments, task_vars or {})
        except (QualityError, CatalogError) as error:
            found = {"failed": True, "msg": str(error)}
        except OSError as error:
            found = {"failed": True, "msg": unusable_place(error, "answers")}
        return {**result, "changed": False, **found}

    def _check(self, arguments: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        plans = plans_of(variables, arguments["plan"])
        nothing: dict[str, Any] = {"asked": False, "lines": [], "problem": "", "answers": ""}
        if not plans[head_of(plans)]["roles"].get("inference_server"):
            if arguments["gate"]:
                return nothing
            raise QualityError("the plan has no server, expected one to ask: set firstlight_model (docs/plan.md)")
        configuration = configuration_of(plans)
        place = state_directory(cluster_of(plans, variables)) / DIRECTORY
        prompts = load_prompts(catalogs_of(variables))
        reference = _reference(arguments["reference"], place, configuration, catalogs_of(variables))
        errors = PlanErrors()
        own = variables["hostvars"][variables["inventory_hostname"]]
        settings = read_quality({"firstlight_quality": own.get("firstlight_quality")}, errors)
        if errors:
            raise QualityError(explain_errors(errors.found, ()))
        comparable = reference is not None and reference.get("prompts_sha256") == prompts.sha256
        if arguments["gate"] and not settings.is_wanted(accepted=comparable):
            return nothing
        twice = arguments["accept"] or arguments["baseline"]
        if self._task.check_mode:
            return {**nothing, "lines": [f"{len(prompts.prompts)} prompts would be asked{' twice' if twice else ''}"]}
        answer = self._ask(plans[head_of(plans)], prompts, 2 if twice else 1, arguments["timeout"], variables)
        if answer.get("failed") or answer.get("unreachable"):
            return {key: answer[key] for key in ("failed", "unreachable", "msg") if key in answer}
        document = _document(cluster_of(plans, variables), configuration, prompts, answer)
        path = place / ANSWERS / f"{document['run']}.json"
        for one in (path, arguments["answers_document"]):
            if one:
                write_document(os.path.expanduser(one), document)
        limits = settings.limits_of(prompts.limits)
        former: list[str] = []
        if twice and not document["problem"]:
            if arguments["accept"]:
                write_document(reference_path(place, configuration), document)
                former = [f"the answers accepted before: {line}" for line in _former(reference, document, limits)]
            reference, document = document, {**document, "answers": document["repeat"]}
        assessment = _assess(reference, document, limits)
        if not arguments["baseline"]:
            write_document(place / f"{document['run']}.json", assessment)
        if arguments["document"]:
            write_document(os.path.expanduser(arguments["document"]), assessment)
        lines = assessment_lines(assessment)
        return {
            "asked": True,
            "assessment": assessment,
            "answers": str(path),
            "lines": [*lines, *former],
            "problem": "" if assessment["status"] in (*PASSED, NO_REFERENCE) else "\n".join(lines),
        }

    def _ask(
        self, plan: Mapping[str, Any], prompts: Prompts, times: int, timeout: int, variables: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask all prompts with the module of this name on the head, which reads the key there."""
        speaker = str(variables.get("inventory_hostname", ""))
        note(speaker, f"{times * len(prompts.prompts)} prompts")
        asked = {
            "url": server_url(plan),
            "model": plan["roles"]["inference_server"]["inference_server_served_name"],
            "engine": str(plan["cluster"]["engine"]),
            "key_path": SERVER_ENVIRONMENT_PATH,
            "prompts": [{name: one[name] for name in ("id", "prompt", "max_tokens")} for one in prompts.prompts],
            "times": times,
            "timeout": timeout,
        }
        answer: dict[str, Any] = self._execute_module(module_args=asked, task_vars=variables)
        note(speaker, "")
        return answer


def _reference(given: str, place: Path, configuration: Mapping[str, Any], catalogs: list[str]) -> dict[str, Any] | None:
    """Return the answers to compare with: those of a given file, or the accepted ones."""
    if not given:
        return find_reference(place, configuration, related_models(catalogs, str(configuration["model"])))
    found = read_answers(Path(given).expanduser())
    if found is None:
        raise QualityError(
            f"{given} has no answers, expected a file that `firstlight quality` wrote: name one of {place / ANSWERS}"
        )
    return found


def _document(
    cluster: str, configuration: Mapping[str, Any], prompts: Prompts, answer: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the document of answers, with `repeat` if the prompts were asked twice."""
    moment = now()
    expected = {one["id"]: one["expected"] for one in prompts.prompts if one.get("expected")}
    told, *again = [
        [{**one, **({"expected": expected[one["id"]]} if one["id"] in expected else {})} for one in answers]
        for answers in answer["answers"]
    ]
    return {
        "format": FORMAT,
        "cluster": cluster,
        "run": run_name(moment),
        "asked": moment.isoformat(),
        # Record the loaded driver, not just the planned one: a factory-installed driver is not pinned.
        "configuration": {**configuration, "driver": answer["driver"] or configuration["driver"]},
        "prompts_sha256": prompts.sha256,
        "problem": answer["problem"],
        "left_out": answer["left_out"],
        "answers": told,
        **({"repeat": again[0]} if again else {}),
    }


def _assess(
    reference: Mapping[str, Any] | None, document: Mapping[str, Any], limits: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    try:
        return assess(reference, document, limits)
    except (AttributeError, KeyError, TypeError) as error:
        told = f"the reference of {(reference or {}).get('asked')} cannot be compared with ({error!r})"
        raise QualityError(f"{told}, expected answers that were accepted here: accept new ones (--accept)") from error


def _former(
    reference: Mapping[str, Any] | None, document: Mapping[str, Any], limits: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Compare new answers with those they replace; empty if there were none."""
    return assessment_lines(_assess(reference, document, limits)) if reference else []
