# SPDX-License-Identifier: Apache-2.0
"""The desired state of Docker with GPUs: pinned packages, daemon settings, a running service, a CDI specification."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.cdi import KIND
from ansible_collections.firstlight.cluster.plugins.module_utils.state.json_settings import merged
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import root_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.source import set_files

DAEMON_FILE = "/etc/docker/daemon.json"
CDI_FILE = "/etc/cdi/nvidia.json"
REFRESH_FILE = "/etc/systemd/system/nvidia-cdi-refresh.service.d/firstlight.conf"
TOOLKIT = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
"""The container toolkit's packages: they must be of one release, which its metapackage alone does not ensure."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_RUNTIMES = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
_WHOLE = ["log-opts"]  # options of another log driver keep Docker from starting
# The toolkit's own service (since 1.18) writes a CDI specification at every boot, to a directory with precedence over
# ours: make it write the same file.
_REFRESH = f"""\
# Managed by Firstlight (role container_runtime): changes here are overwritten.
[Service]
Environment=NVIDIA_CTK_CDI_OUTPUT_FILE_PATH={CDI_FILE}
"""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return pinned and held packages, our settings in `daemon.json`, and the service enabled and running.

    With GPUs also the runtime `nvidia`, and a CDI specification for the loaded driver.
    """
    gpus = bool(variables.get("container_runtime_gpus"))
    pins = _pins(variables["container_runtime_packages"] or {})
    files = set_files("container_runtime", "container", pins, pins, _sources(variables, pins)) if pins else {}
    settings = variables["container_runtime_daemon"] or {}
    if not isinstance(settings, Mapping):
        raise ValueError(
            f"container_runtime_daemon is a {type(settings).__name__}, expected settings of {DAEMON_FILE} by name: "
            "write them as a mapping"
        )
    state: dict[str, Any] = {
        "packages": pins,
        "holds": dict.fromkeys(sorted(pins), True),
        "files": files,
        "json_files": {
            DAEMON_FILE: {
                "settings": merged(_RUNTIMES, settings) if gpus else dict(settings),
                "whole": [key for key in _WHOLE if key in settings],
                "mode": "0644",
                "owner": "root",
                "group": "root",
            }
        },
        "units": {str(variables["container_runtime_service"]): {"enabled": True, "active": True}},
    }
    if gpus:
        state["files"] = dict(sorted({**files, REFRESH_FILE: root_file(_REFRESH)}.items()))
        state["cdi"] = {CDI_FILE: {"kind": KIND}}
    return state


def _sources(variables: Mapping[str, Any], pins: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Validate the package sources besides the host's own; Docker and the toolkit have different ones."""
    sources = variables.get("container_runtime_sources") or []
    if not isinstance(sources, list) or not all(isinstance(one, Mapping) for one in sources):
        raise ValueError(
            "container_runtime_sources is not a list of sources, expected each with its name, its packages and what "
            "apt needs (uris, suites, key or key_file, fingerprint): write it as a list of mappings"
        )
    for one in sources:
        name = str(one.get("name") or "")
        if not _NAME.fullmatch(name) or not isinstance(one.get("packages"), list):
            raise ValueError(
                f"container_runtime_sources has a source with the name {name!r} and packages {one.get('packages')!r}, "
                "expected a name of small letters, digits and dashes, for the file's name, and a list of the packages "
                "that come from it: give both"
            )
    taken: list[dict[str, Any]] = [{**one, "packages": _whole_toolkit(one["packages"], pins)} for one in sources]
    for number, one in enumerate(taken):
        for other in taken[:number]:
            twice = sorted({*one["packages"]} & {*other["packages"]})
            if twice:
                raise ValueError(
                    f"container_runtime_sources takes {', '.join(twice)} from {other['name']} and from {one['name']}, "
                    "expected one source for a package: remove it from one of them"
                )
    return taken


def _whole_toolkit(names: Iterable[Any], pins: Mapping[str, Any]) -> list[str]:
    """Return the packages of a source; the toolkit's four are one release, so naming the first is enough."""
    listed = dict.fromkeys(str(name) for name in names)
    if TOOLKIT[0] in listed:
        listed |= dict.fromkeys(name for name in TOOLKIT if name in pins)
    return list(listed)


def _pins(packages: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the versions; if the toolkit is pinned, all its packages are pinned to that version."""
    pins = {str(name): None if version is None else str(version) for name, version in packages.items()}
    versions = {name: pins[name] for name in TOOLKIT if pins.get(name) is not None}
    if len(set(versions.values())) > 1:
        told = ", ".join(f"{name} {version}" for name, version in versions.items())
        raise ValueError(
            f"container_runtime_packages pins the container toolkit to several versions ({told}), expected one: its "
            "four packages are one release. Pin all of them to the same version"
        )
    if pins.get(TOOLKIT[0]) is not None:
        pins |= {name: pins[TOOLKIT[0]] for name in TOOLKIT if pins.get(name) is None}
    return dict(sorted(pins.items()))
