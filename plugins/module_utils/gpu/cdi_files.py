# SPDX-License-Identifier: Apache-2.0
"""Keeps a host's single CDI specification of its GPUs up to date with the loaded driver.

Other files in the two CDI directories that name the same GPUs get another ending, which no runtime reads: two files in
one directory would be a conflict, and a file in the second would hide ours.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from ..host import Host, write_file
from ..problems import SettingsError
from .cdi import parse_specification, problems
from .cdi_probe import other_specifications, read_cdi, read_gpus

ENDING = ".replaced"
NOTHING = "Nothing was changed."


def describe_gpus(host: Host, path: str, timeout: float, check_mode: bool = False, root: str = "/") -> dict[str, Any]:
    """Write the specification if it is due. Raises SettingsError.

    Nothing is written while an installed driver waits for its reboot, as nvidia-ctk would fail.
    """
    state = read_cdi(host, path, timeout, root)
    if state["waiting"]:
        if state["reboot_required"] or check_mode:
            # In check mode the driver may be one that an earlier task would install.
            return {"changed": check_mode, "differences": [], "diff": []}
        raise SettingsError(
            f"The GPUs cannot be described for containers: {state['waiting']}; expected a driver that answers. "
            f"{NOTHING} Install it with the role nvidia_driver, or set container_runtime_gpus to false on a host "
            "without GPUs"
        )
    outdated = not state["exists"] or any(field != "others" for field in state["wrong"])
    others = other_specifications(host, path, root)
    if not check_mode:
        if outdated:
            _generate(host, path, timeout, root)
        for other in others:
            there = os.path.join(root, other.lstrip("/"))
            os.replace(there, there + ENDING)
    wrong = _wrong(state) if outdated else []
    after = "as the host's GPUs and its loaded driver\n"
    return {
        "changed": bool(outdated or others),
        "differences": [
            *(f"CDI specification {path}: {one}" for one in wrong),
            *(f"CDI specification {other} has the GPUs of {path}, expected none" for other in others),
        ],
        "diff": [{"header": path, "before": "".join(f"{one}\n" for one in wrong), "after": after}] if outdated else [],
    }


def _wrong(state: Mapping[str, Any]) -> list[str]:
    if not state["exists"]:
        return ["it is missing"]
    return [f"{field}: {pair[1]}, expected {pair[0]}" for field, pair in state["wrong"].items()]


def _generate(host: Host, path: str, timeout: float, root: str) -> None:
    """Generate in a scratch directory, verify, then install; some GPUs get additional files with longer names."""
    if not host.has("nvidia-ctk"):
        raise SettingsError(
            "nvidia-ctk is not installed, expected it to describe the GPUs for containers: install "
            "nvidia-container-toolkit-base, or set container_runtime_gpus to false"
        )
    place = os.path.join(root, os.path.dirname(path).lstrip("/"))
    os.makedirs(place, mode=0o755, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="firstlight-cdi-") as scratch:
        name = os.path.basename(path)
        argv = ["nvidia-ctk", "cdi", "generate", f"--output={os.path.join(scratch, name)}"]
        result = host.run(argv, timeout)
        if not result.ok:
            raise SettingsError(
                f"nvidia-ctk could not describe the GPUs: {_complaint(result.stderr) or result.summary}. {NOTHING} "
                f"Try `{' '.join(argv[:3])}` on the host"
            )
        written = {file: host.read_text(os.path.join(scratch, file)) or "" for file in sorted(os.listdir(scratch))}
    gpus = read_gpus(host, timeout, root)
    try:
        wrong = problems(parse_specification(written.get(name, "")), gpus.uuids, gpus.driver)
    except ValueError as error:
        wrong = {"format": ("a CDI specification", str(error))}
    if wrong:
        told = "; ".join(f"{field} {pair[1]}, expected {pair[0]}" for field, pair in wrong.items())
        raise SettingsError(
            f"The output of nvidia-ctk does not fit this host: {told}. {NOTHING} Compare `nvidia-smi -L` with "
            "`nvidia-ctk cdi generate` on the host"
        )
    for file, text in written.items():
        write_file(os.path.join(place, file), text, 0o644)


def _complaint(stderr: str) -> str:
    """The message of the last error line; the lines before it are about the search for libraries."""
    errors = [line for line in stderr.splitlines() if "level=error" in line or line.startswith("ERROR")]
    return errors[-1].partition("msg=")[2].strip('"') or errors[-1] if errors else ""
