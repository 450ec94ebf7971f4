# SPDX-License-Identifier: Apache-2.0
"""Read the weights part of an intent: a hub or a directory of the head as the source, and which files to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt_history import without_credentials
from ansible_collections.firstlight.cluster.plugins.module_utils.text import is_hexadecimal
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import read_mapping
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.weights_files import LISTS

ERRORS = {
    "weights.source": "Weights that do not come from a hub come from a directory of the head, by its absolute path.",
    "weights.endpoint": "Over http anyone on the path can replace the bytes; only a pin detects it.",
    "weights.contents": "A pin that is not a digest never matches a file, and that would show only on the hosts.",
    "weights.token": "A gated repository serves its files only to an account that has accepted its licence. Without "
    "the token of one the download fails with 401, after the driver and the reboot.",
    "weights.files": "Files are selected by patterns of their paths in the repository; any other would match nothing.",
}

TOKENS = ("model_weights_token", "model_weights_token_path")
"""Role variables that give an access token of the hub."""


def check_weights_source(intent: Mapping[str, Any], errors: PlanErrors) -> None:
    """Refuse a weights source that is not the absolute path of a directory."""
    given = intent.get("firstlight_weights_source")
    if given is not None and not (isinstance(given, str) and given.startswith("/")):
        errors.add(
            "weights.source",
            f"firstlight_weights_source is {given!r}",
            "it is the absolute path of a directory on the head with the model's files",
            "write firstlight_weights_source: /mnt/models/huggingface, or leave it out to take them from the hub",
        )


def check_weights_pin(
    intent: Mapping[str, Any], stack: Mapping[str, Any] | None, model: Mapping[str, Any] | None, errors: PlanErrors
) -> None:
    """Refuse a pin that is not a digest, and a hub over plain http where there is no pin."""
    pin = str((model or {}).get("contents") or "")
    if pin and not (pin.startswith("sha256:") and is_hexadecimal(pin.removeprefix("sha256:"), 64)):
        errors.add(
            "weights.contents",
            f"models/{(model or {}).get('name')}.yml has contents {pin!r}",
            "it is one digest of all the model's files, sha256: and 64 digits",
            "compute it as described in docs/weights.md, or leave it out",
        )
    endpoint = str(intent.get("firstlight_weights_endpoint") or (stack or {}).get("weights_endpoint") or "")
    if endpoint.startswith("http:") and not pin and not intent.get("firstlight_weights_source"):
        errors.add(
            "weights.endpoint",
            f"the weights come from {without_credentials(endpoint)}",
            "a hub is reached over https, unless the catalog pins the bytes of the model (contents)",
            "set firstlight_weights_endpoint to an https address, or contents in the model's entry (docs/weights.md)",
        )


def check_token(
    intent: Mapping[str, Any], model: Mapping[str, Any] | None, hosts: Sequence[HostIntent], missing_inputs: PlanErrors
) -> list[str]:
    """Return a note on a gated model; a missing token for a host that fetches it is reported as a missing input."""
    if not (model or {}).get("gated") or intent.get("firstlight_weights_source"):
        return []
    shared = bool(intent.get("firstlight_fabric"))
    fetches = [host for host in hosts if host.is_head or not shared]
    without = [host.name for host in fetches if not any(host.variables.get(name) for name in TOKENS)]
    name, repository = (model or {}).get("name"), (model or {}).get("repository")
    if without:
        missing_inputs.add(
            "weights.token",
            f"{name} is gated, and no access token is given on {', '.join(without[:8])}",
            f"{repository} is served only to an account that has accepted its licence on the hub",
            "accept the licence there, and set model_weights_token_path to a file on the host with a read "
            "token, or model_weights_token with Ansible Vault (docs/weights.md)",
        )
    return [f"{name} is gated, licence {(model or {}).get('licence') or 'unknown'}: its use is subject to these terms"]


def check_model_files(intent: Mapping[str, Any], model: Mapping[str, Any] | None, errors: PlanErrors) -> None:
    """Refuse file selections that are not lists of patterns, in the inventory or in the model's entry."""
    given = read_mapping(intent, "firstlight_model_files", LISTS, errors)
    own = (model or {}).get("files") or {}
    for where, lists in (("firstlight_model_files", given), (f"models/{(model or {}).get('name')}.yml files", own)):
        for key in LISTS:
            value = lists.get(key) or []
            if not isinstance(value, list) or not all(map(_is_pattern, value)):
                errors.add(
                    "weights.files",
                    f"{where}.{key} is {value!r}",
                    "it is a list of patterns of paths below the repository",
                    f"write {where}.{key}: ['original/*'], or leave it out",
                )


def _is_pattern(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not value.startswith("/") and ".." not in value.split("/")
