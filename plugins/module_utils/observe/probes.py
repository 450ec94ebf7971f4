# SPDX-License-Identifier: Apache-2.0
"""Read a host: one probe per kind of state, for every subject."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..driver.driver_probe import read_driver
from ..engine_venv.build import read_environment
from ..fabric.fabric_ports import port_names, read_ports
from ..fabric.firmware_probe import read_firmware
from ..fabric.kinds import KINDS as FABRIC_KINDS
from ..fabric.kinds import each_port, named_ports
from ..firewall.firewall_host import read_ruleset
from ..gpu.cdi_probe import read_cdi
from ..gpu.health import KIND as GPU_HEALTH
from ..host import Host
from ..image.image import is_local_name, read_record, record_path
from ..parsers.cuda import parse_nvcc_version, parse_version_json
from ..parsers.docker import parse_docker_containers, parse_docker_images
from ..parsers.dpkg import HOLD_FORMAT, parse_holds
from ..parsers.meminfo import total_bytes
from ..parsers.network import parse_ip_addresses
from ..parsers.nvidia_smi import GPU_QUERY, parse_query_gpu
from ..parsers.serial import parse_serial
from ..parsers.text import parse_os_release
from ..serving.files import STATE_PATH
from ..serving.kinds import read_groups
from ..state.json_files import read_json_file
from ..state.json_settings import wanted_settings
from ..state.vocabulary import UNKNOWN, WHOLE, State, subjects
from ..tuning.host_probes import GRACE, NamedProbe, Probe, ProbeError, answer_of, bound, run_all, settings_probes
from ..weights.snapshot import RECORD_NAME, left_out, parse_record, record_contents, verify_record

REPIN_JOURNAL = "/var/lib/firstlight/repin/journal.json"
DRAINED_MARKER = "/var/lib/firstlight/drained"
SERIAL = "/sys/class/dmi/id/product_serial"
ASK_SERIAL = ("dmidecode", "-s", "system-serial-number")


Evaluate = Callable[[Host, Mapping[str, Any], float], State]


def observe(
    host: Host,
    desired_by_role: Mapping[str, Mapping[str, Any]],
    timeout: float = 30.0,
    evaluate: Evaluate | None = None,
) -> State:
    """Observe everything that these desired states name on `host`.

    The GPUs are evaluated only if `evaluate` is given: it would be half of the code that a module sends to a host.
    Raises ValueError for a desired state with unknown keys.
    """
    wanted = subjects(desired_by_role)
    ports = named_ports(desired_by_role)
    if "fabric" in wanted:
        for kind, keys in each_port(desired_by_role, port_names(ports)).items():
            wanted[kind] = sorted({*wanted.get(kind, []), *keys})
    probes = _probes(host, wanted, timeout)
    if wanted.get("json_files"):
        settings = wanted_settings(desired_by_role)
        probes["json_files"] = lambda: {path: read_json_file(host, path, want) for path, want in settings.items()}
    if any(kind in wanted for kind in FABRIC_KINDS):
        ports = named_ports(desired_by_role)
        probes["fabric"] = lambda: read_ports(host, named=ports, timeout=timeout)
    health = next((state[GPU_HEALTH] for state in desired_by_role.values() if state.get(GPU_HEALTH)), None)
    if health and evaluate:
        probes[GPU_HEALTH] = lambda: evaluate(host, health, timeout)
    # The GPU check enforces its own timeout on what it queries, and then has to evaluate the answers.
    answers, errors = run_all(probes, timeout + GRACE * (3 if health else 1))
    observation: State = {kind: {} for kind in wanted if kind not in (*WHOLE, "driver")}
    for kind in ("disk_free", *FABRIC_KINDS):
        observation.pop(kind, None)
    observation.update({kind: answer for kind, answer in answers.items() if kind != "facts"})
    if "gpus" in wanted and "gpus" in errors:
        observation["gpus"] = {"count": 0, "names": [], "driver": None, "error": errors["gpus"]}
    if GPU_HEALTH in errors:
        observation[GPU_HEALTH] = {"checks": [], "topology": None, "serving": False, "error": errors[GPU_HEALTH]}
    _add_of_driver(observation)
    if "links" in answers:
        found = set(wanted.get("links", [])) | set(answers.get("fabric") or {} if "fabric" in wanted else ())
        observation["links"] = {port: link for port, link in answers["links"].items() if port in found}
    observation["facts"] = answers.get("facts", {})
    observation["errors"] = errors
    return observation


def read_serial(host: Host) -> str:
    """Return the machine's serial number from the kernel's file, else from the firmware's tables.

    Empty if neither has one, or without root privileges.
    """
    shown = host.read_text(SERIAL)
    if shown is None:
        answer = host.run(ASK_SERIAL)
        shown = answer.stdout if answer.ok else ""
    return parse_serial(shown) or ""


def _add_of_driver(observation: State) -> None:
    """Add the packages that only the host itself can name, now that they are known."""
    driver = observation.get("driver") or {}
    if driver.get("kernel"):
        observation.setdefault("packages", {}).setdefault(f"linux-headers-{driver['kernel']}", driver.get("headers"))
    if driver.get("related_holds"):
        observation["holds"] = {**driver["related_holds"], **(observation.get("holds") or {})}


def _probes(host: Host, wanted: Mapping[str, list[str]], timeout: float) -> dict[str, Probe]:
    probes: dict[str, Probe] = {
        "facts": lambda: _facts(host, [*wanted.get("disk_free", []), *wanted.get("snapshots", [])]),
        **settings_probes(host, wanted, timeout),
    }
    by_kind: dict[str, NamedProbe] = {
        "holds": lambda names: _holds(host, names, timeout),
        "rulesets": lambda paths: {path: read_ruleset(host, path, timeout) for path in paths},
        "firmware": lambda paths: {path: read_firmware(host, path, timeout) for path in paths},
        "links": lambda ports: _links(host, ports, timeout),
        "images": lambda references: _images(host, references, timeout),
        "containers": lambda names: _containers(host, names, timeout),
        "snapshots": lambda paths: {path: _snapshot(host, path) for path in paths},
        "venvs": lambda paths: {path: read_environment(host, path) for path in paths},
        "groups": lambda names: _groups(host, names),
        "cuda": lambda releases: {release: _cuda(host, release, timeout) for release in releases},
        "cdi": lambda paths: {path: read_cdi(host, path, timeout) for path in paths},
    }
    for kind, probe in by_kind.items():
        # Ports that are only found by probing need their links as well.
        if wanted.get(kind) or (kind == "links" and "fabric" in wanted):
            probes[kind] = bound(probe, wanted.get(kind, []))
    if "driver" in wanted:
        probes["driver"] = lambda: read_driver(host, wanted["driver"], timeout)
    if "gpus" in wanted:
        probes["gpus"] = lambda: _gpus(host, timeout)
    return probes


def _holds(host: Host, names: Sequence[str], timeout: float) -> dict[str, bool]:
    result = host.run(["dpkg-query", "--show", f"--showformat={HOLD_FORMAT}", *names], timeout)
    if result.problem or result.rc not in (0, 1):
        raise ProbeError(result.summary)
    return parse_holds(result.stdout, names)


def _cuda(host: Host, release: str, timeout: float) -> State:
    place = f"/usr/local/cuda-{release}"
    compiler = f"{place}/bin/nvcc"
    found: State = {"exists": host.size_and_mtime(compiler) is not None, "release": None, "compiler": None}
    found |= {"version": parse_version_json(host.read_text(f"{place}/version.json")), "error": None}
    if not found["exists"]:
        return found
    result = host.run([compiler, "--version"], timeout)
    told = parse_nvcc_version(result.stdout)
    error = None if result.ok and told.release else result.summary if not result.ok else "it reports no version"
    return {**found, "release": told.release, "compiler": told.version, "error": error}


def _links(host: Host, ports: Sequence[str], timeout: float) -> dict[str, State]:
    """Return every link of the host, and the named ones that it lacks."""
    found = parse_ip_addresses(answer_of(host.run(["ip", "-j", "addr", "show"], timeout)))
    absent: State = {"exists": False, "mtu": None, "addresses": [], "up": False}
    return {**{port: dict(absent) for port in ports}, **found}


def _images(host: Host, names: Sequence[str], timeout: float) -> dict[str, State]:
    found = parse_docker_images(_docker(host, ["docker", "image", "inspect", *names], timeout), names)
    return {
        name: {
            "exists": identity is not None,
            "id": identity,
            "record": read_record(host.read_text(record_path(name))) if is_local_name(name) else None,
        }
        for name, identity in found.items()
    }


def _containers(host: Host, names: Sequence[str], timeout: float) -> dict[str, State]:
    text = _docker(host, ["docker", "container", "inspect", *names], timeout)
    return parse_docker_containers(text, names)


def _docker(host: Host, argv: Sequence[str], timeout: float) -> str:
    """Return inspect output; empty without Docker. Raises ProbeError if its daemon does not answer."""
    if not host.has("docker"):
        return ""
    result = host.run(argv, timeout)
    # It returns 1 both for an unknown name and for a daemon that is down; only the messages differ.
    complaints = [line for line in result.stderr.splitlines() if line.strip()]
    if result.problem or (not result.ok and any("o such " not in line for line in complaints)):
        raise ProbeError(result.summary)
    return result.stdout


def _snapshot(host: Host, directory: str) -> State:
    text = host.read_text(os.path.join(directory, RECORD_NAME))
    if text is None:
        return {
            "verified": False,
            "repository": None,
            "revision": None,
            "reason": "no record of a verified copy",
        }
    try:
        record = parse_record(text)
    except ValueError as error:
        return {"verified": False, "repository": None, "revision": None, "reason": str(error)}
    verified, reason = verify_record(record, lambda path: host.size_and_mtime(os.path.join(directory, path)))
    out = sorted(left_out(record))
    return {
        "verified": verified,
        "repository": record["repository"],
        "revision": record["revision"],
        "reason": reason,
        "contents": record_contents(record),
        # If nothing was left out, every file of the revision is there, and their names are irrelevant.
        **({"files": sorted(record["files"]), "left_out": out} if out else {}),
    }


def _groups(host: Host, names: list[str]) -> dict[str, State]:
    """Return the supervisor's last state of these groups."""
    stamp = host.size_and_mtime(STATE_PATH)
    age = None if stamp is None else time.time() - stamp[1] / 1e9
    return read_groups(host.read_text(STATE_PATH), age, names)


def _gpus(host: Host, timeout: float) -> State:
    command = ["nvidia-smi", f"--query-gpu={GPU_QUERY}", "--format=csv,noheader,nounits"]
    result = host.run(command, timeout)
    reading = parse_query_gpu(result.stdout)
    if not result.ok and not reading.gpus:
        raise ProbeError(result.summary)
    complaint = reading.complaints[0] if reading.complaints else "" if result.ok else result.summary
    return {
        "count": len(reading.gpus),
        "names": [gpu.name for gpu in reading.gpus],
        "memory_mib": [gpu.memory_mib for gpu in reading.gpus],
        "driver": reading.gpus[0].driver if reading.gpus else None,
        "error": complaint or None,
    }


def _repin(host: Host) -> str | None:
    """Return the state of an unfinished re-pin of this host; None if there is none."""
    text = host.read_text(REPIN_JOURNAL)
    if text is None:
        return None
    try:
        return str(json.loads(text)["entries"][-1]["state"])
    except (ValueError, TypeError, KeyError, IndexError):
        return UNKNOWN


def _facts(host: Host, paths: Sequence[str]) -> State:
    release = parse_os_release(host.read_text("/etc/os-release") or host.read_text("/usr/lib/os-release") or "")
    return {
        "distribution": release.get("ID"),
        "version": release.get("VERSION_ID"),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "memory_bytes": total_bytes(host.read_text("/proc/meminfo") or ""),
        "boot_id": (host.read_text("/proc/sys/kernel/random/boot_id") or "").strip() or None,
        "repin": _repin(host),
        "drained": host.read_text(DRAINED_MARKER) is not None,
        # Space that a directory already uses counts as free for it: a re-run after the download must not fail.
        "disk_free": {
            "/": host.disk_free("/"),
            **{path: host.disk_free(path) + host.disk_used(path) for path in paths if path != "/"},
        },
    }
