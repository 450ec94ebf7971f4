# SPDX-License-Identifier: Apache-2.0
"""Check that the machine that answers is the intended replacement, from the results of Ansible and the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OTHER_KEY = ("REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed", "No ED25519 host key is known")


def replacement_problem(
    host: str, answer: Mapping[str, Any], place: Mapping[str, Any] | None, address: str, inventory: str
) -> str:
    """Return why this machine must not be changed; empty if it is the one named in the inventory.

    `answer` is the result of module `observe`, or Ansible's own if the module could not run.
    """
    if answer.get("unreachable"):
        said = " ".join(str(answer.get("msg") or "").split())
        if any(words in said for words in _OTHER_KEY):
            return (
                f"{host} shows another host key than the pinned one, expected the key of the machine that replaces "
                "it: if that is the new machine, compare the key on its console, write its serial into nodes.yml, "
                "and pin it with "
                f"`firstlight bootstrap --nodes nodes.yml {host} -i {inventory} --replaces {host}`"
            )
        return f"{host} ({address}) does not answer ({said[:300]}), expected the new machine: check power and cable"
    if answer.get("failed"):
        return f"{host} cannot be read ({answer.get('msg')}), expected its serial number: fix the reported cause"
    wanted = str((place or {}).get("serial") or "")
    found = str(answer.get("serial") or "")
    if wanted and wanted != found:
        return (
            f"the machine at {host} has {f'the serial {found}' if found else 'no serial number'}, expected "
            f"{wanted}, the one in the inventory: it is another machine, or still the old one; check the sticker, "
            "and correct serials of its rack"
        )
    return ""


def replacement_message(host: str, answer: Mapping[str, Any], place: Mapping[str, Any] | None) -> str:
    """Return what is known about the machine, for the operator."""
    found = answer.get("serial") or "without a serial number"
    if (place or {}).get("serial"):
        return f"{host} is the machine {found}, as in the inventory"
    return (
        f"{host} is the machine {found}; the inventory has no serial for it, so check yourself that it is the right one"
    )
