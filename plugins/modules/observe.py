#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `observe`: read everything a plan speaks of in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: observe
short_description: Read every slice of a host that a plan speaks of, in one call
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Reads packages, holds, files, kernel settings, units, links, images, containers, weights, virtual
    environments, driver, CUDA and GPUs, but only those that the desired states name, and returns them in the same
    vocabulary.
  - Changes nothing. All probes run at the same time, each with a time limit. A probe that fails has an entry
    in RV(observation.errors) and never fails the module.
  - Files are told by digest, mode and owner; their contents never leave the host.
  - With O(history) it also says what a host's logs tell of the changes to it, and with O(serial) which machine it is.
  - Needs privileges (C(become)) to read root-only files and to ask Docker.
options:
  desired:
    description: Desired states by role name, as C(firstlight_plan.desired). Only what they name is looked at.
    type: dict
    default: {}
  history:
    description:
      - What to look up in the logs of apt and dpkg, the rotated ones too, and to ask systemd and fwupd about.
      - Without it no log is read, so that looking at a host that is right stays cheap. This is the second question, for
        hosts that are not.
      - Of each log at most thirteen files are read, 8 MiB of each, and no further one is opened after 3 seconds.
    type: dict
    suboptions:
      packages:
        description: The packages of interest and the version each has now, null when it is not installed.
        type: dict
        default: {}
      paths:
        description: Files and virtual environments of Python of interest.
        type: list
        elements: str
        default: []
      units:
        description: Units of interest.
        type: list
        elements: str
        default: []
      sysctl:
        description: Kernel settings of interest.
        type: list
        elements: str
        default: []
      fwupd:
        description: Whether to ask fwupd for the firmware that it updated.
        type: bool
        default: false
  serial:
    description: Whether to read the serial number that the firmware shows to root. A host keeps its name when its
      machine is replaced; the serial number tells the two apart.
    type: bool
    default: false
  timeout:
    description: Seconds each probe may take.
    type: int
    default: 30
  settle:
    description:
      - Seconds during which ports that are not as they are wanted are read again.
      - RDMA devices follow the MTU and the address of their port only after a moment, and GPUs are joined by their
        fabric manager only a while after a boot.
    type: int
    default: 0
attributes:
  check_mode:
    description: Reads only, so check mode is no different.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  idempotent:
    description: Changes nothing.
    support: full
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Observe the host
  firstlight.cluster.observe:
    desired: "{{ firstlight_plan.desired }}"
  register: __observe

- name: Observe one role's slice
  firstlight.cluster.observe:
    desired:
      host_tuning:
        sysctl:
          vm.swappiness: "1"
        default_target: multi-user.target

- name: Find out by what a package was moved
  firstlight.cluster.observe:
    history:
      packages:
        nvidia-utils-580: 580.126.09-0ubuntu0.24.04.2
"""

RETURN = r"""
observation:
  description: What was found, under the same keys as the desired states.
  returned: always
  type: dict
  contains:
    packages:
      description: Installed version by package, null when not installed.
      type: dict
      returned: when packages were named
      sample: {"docker.io": "20.10.24+dfsg1-1+deb12u1", "nvidia-container-toolkit": null}
    holds:
      description: Whether each package is on hold, so that no upgrade moves it.
      type: dict
      returned: when holds were named
      sample: {"nvidia-driver-580-open": true}
    driver:
      description:
        - The NVIDIA driver as it is installed, loaded and used. C(installed) is the version of the package,
          C(loaded) the kernel module's, C(library) nvidia-smi's; null where there is none.
        - C(reboot_required) is true when the loaded module is not the installed one.
        - C(related) are installed packages of the driver's version that nobody named, C(mixed) parts of a driver that
          are of another version, C(others) further packages of NVIDIA's with their versions. C(runfile) is what a
          driver that came without packages left.
      type: dict
      returned: when a driver was named
      sample: {"installed": "580.126.09", "loaded": "580.95.05", "library": "580.126", "flavour": "open",
               "nouveau": false, "mig": {"current": false, "pending": false}, "nvswitches": 0,
               "kernel": "6.17.0-1014-nvidia", "secure_boot": false, "signing": false, "related": [], "mixed": [],
               "reboot_required": true, "error": "Failed to initialize NVML: Driver/library version mismatch"}
    files:
      description: Existence, digest, mode and owner by path.
      type: dict
      returned: when files were named
      sample: {"/etc/docker/daemon.json": {"exists": true, "sha256": "e3b0c442", "mode": "0644",
               "owner": "root", "group": "root"}}
    json_files:
      description: Settings at the named keys, mode and owner by path; what else is in the file is not told.
      type: dict
      returned: when JSON files were named
      sample: {"/etc/docker/daemon.json": {"exists": true, "error": null, "settings": {"live-restore": true},
               "mode": "0644", "owner": "root", "group": "root"}}
    cuda:
      description: The compiler of each named release, and the release in full where a file says it.
      type: dict
      returned: when CUDA releases were named
      sample: {"13.0": {"exists": true, "release": "13.0", "compiler": "13.0.88", "version": "13.0.2", "error": null}}
    cdi:
      description:
        - CDI specifications by path. C(wrong) has expected and found by field where one does not fit the host.
        - C(waiting) says why the driver does not answer, C(reboot_required) whether a reboot is what it needs.
      type: dict
      returned: when CDI specifications were named
      sample: {"/etc/cdi/nvidia.json": {"exists": true, "waiting": null, "reboot_required": false,
               "wrong": {"driver": ["580.126.09", "580.95.05"]}}}
    sysctl:
      description: Value by kernel setting, null when the kernel has no such setting.
      type: dict
      returned: when kernel settings were named
      sample: {"vm.swappiness": "60"}
    units:
      description: Load state, whether enabled and active, and sub-state by unit.
      type: dict
      returned: when units were named
      sample: {"docker.service": {"load": "loaded", "enabled": true, "active": true, "sub": "running"}}
    optional_sysctl:
      description: As RV(observation.sysctl), of settings that not every kernel has.
      type: dict
      returned: when such settings were named
      sample: {"kernel.numa_balancing": "1"}
    managers:
      description: What systemd and logind go by now; null of a logind that is not there.
      type: dict
      returned: when settings of these were named
      sample: {"systemd/DefaultLimitMEMLOCK": "8388608", "logind/RemoveIPC": "yes"}
    linger:
      description: Whether the services of an account outlive its sessions.
      type: dict
      returned: when accounts were named
      sample: {"nvidia": false}
    governor:
      description: Governor of each group of CPUs and those it could have; empty where the kernel gives no choice.
      type: dict
      returned: when a governor was named
      sample: {"policy0": {"governor": "schedutil", "available": ["performance", "schedutil"]}}
    swap:
      description: What the host swaps to.
      type: list
      elements: dict
      returned: when swap was named
      sample: [{"device": "/swap.img", "priority": -2}]
    clock:
      description: The service that keeps the time, and whether the clock is right; null where nobody can tell.
      type: dict
      returned: when a clock was named
      sample: {"service": "chrony.service", "load": "loaded", "enabled": true, "active": true, "synchronized": true}
    ledgers:
      description: Names of what was changed on the host and can be given back, by ledger.
      type: dict
      returned: when ledgers were named
      sample: {"/var/lib/firstlight/host_tuning/ledger.json": {"exists": true, "keeps": ["swap"], "error": null}}
    rulesets:
      description:
        - Whether the firewall's table is in force, by its file. C(missing) are rules of the file that the kernel lacks,
          C(added) those that it has besides.
      type: dict
      returned: when files of rules were named
      sample: {"/etc/firstlight/firewall.nft": {"loaded": true, "missing": [], "added": [], "error": null}}
    default_target:
      description: The target the host boots into.
      type: str
      returned: when a default target was named
      sample: multi-user.target
    links:
      description: MTU, global addresses and carrier by port.
      type: dict
      returned: when links were named
      sample: {"enp1s0f1np1": {"exists": true, "mtu": 9000, "addresses": ["192.168.100.10/24"], "up": true}}
    fabric:
      description:
        - Every network port with a PCI function and every port that was named, with what is behind it. C(null) is not
          known.
        - C(cage) is the socket that the port shares with its C(twin), C(half) which of the two it is. A port without a
          PCI function has the place that the request gives it.
        - An RDMA device without a network port stands under its own name, and its C(port) is null.
      type: dict
      returned: when ports, rails or RDMA devices were named
      sample: {"enp1s0f1np1": {"port": "enp1s0f1np1", "driver": "mlx5_core", "pci": "0000:01:00.1",
               "mac": "4c:bb:47:2f:91:11", "mtu": 9000, "carrier": true, "speed_mbit": 200000,
               "rdma_device": "rocep1s0f1", "rdma_port": 1,
               "rdma_state": "ACTIVE", "link_layer": "Ethernet", "rate_gbit": 200, "active_mtu": 4096,
               "firmware": "28.45.4028", "gids": [{"index": 3, "address": "192.168.100.10", "type": "RoCE v2"}],
               "cage": 1, "half": 0, "twin": "enP2p1s0f1np1"}}
    images:
      description: Existence, id, and the record of the check of each image, by its name.
      type: dict
      returned: when images were named
      sample: {"firstlight/engine:sha256-0123": {"exists": true, "id": "sha256:4567", "record": null}}
    containers:
      description: Existence, whether running, and image by container name.
      type: dict
      returned: when containers were named
      sample: {"firstlight-ray": {"exists": true, "running": true, "image": "vllm/vllm-openai@sha256:0123"}}
    snapshots:
      description:
        - Whether the weights in each directory are the verified ones, and of which revision.
        - C(contents) is the digest of all its files together, as they were verified.
        - C(files) and C(left_out) are there where files of the revision were not brought, because no engine loads them.
      type: dict
      returned: when snapshots were named
      sample: {"/srv/models/tiny": {"verified": false, "repository": null, "revision": null,
               "reason": "no record of a verified copy"}}
    groups:
      description:
        - The phase of each serving group as the supervisor of this host last wrote it, why, and whom it waits for.
        - C(no supervisor) where none has written for half a minute.
      type: dict
      returned: when groups were named
      sample: {"server": {"phase": "gathering", "why": "", "missing": {"spark2": "it has not connected"}}}
    venvs:
      description:
        - What each virtual environment was made of (the digest of its lock), the packages in it now, those that are
          not as they were installed, and files that are not as their package brought them.
        - Of most packages only some files are looked at, of the engine all.
      type: dict
      returned: when virtual environments were named
      sample: {"/opt/venvs/vllm": {"exists": true, "finished": true, "lock": "0f3b6c5c", "python": "python3.12",
               "packages": {"torch": "2.13.0+cu130", "vllm": "0.32.1"},
               "differing": {"vllm": {"expected": "0.32.0", "observed": "0.32.1"}}, "changed": []}}
    gpus:
      description: Count, names, reported memory (null on unified memory) and driver of the GPUs.
      type: dict
      returned: when GPUs were named
      sample: {"count": 1, "names": ["NVIDIA GB10"], "memory_mib": [null], "driver": "580.95.05",
               "error": null}
    gpu_health:
      description:
        - Every check of the GPUs by the hardware profile that was named, with its verdict, and how they are joined.
        - C(serving) tells whether Firstlight's own services run on the host, whose processes then hold the GPUs.
      type: dict
      returned: when a hardware profile was named
      sample: {"checks": [{"id": "gpu.count", "host": "", "verdict": "pass", "expected": 8, "observed": 8, "remedy": "",
               "command": null, "source": "nvidia-smi -L"}], "topology": null, "serving": false}
    facts:
      description:
        - Distribution, version, architecture, Python, memory, boot id and disk space.
        - The disk space of a named directory is what is free plus what the directory itself holds.
        - C(repin) is the state of a re-pin that nobody has finished, null without one. C(drained) tells whether the
          host was taken out of service.
      type: dict
      returned: always
      sample: {"distribution": "ubuntu", "version": "24.04", "architecture": "aarch64", "python": "3.12.3",
               "memory_bytes": 128523563008, "boot_id": "2f6c0f3e-0d1c-4a57-9e53-0c5a1f2b7d11",
               "repin": null, "drained": false,
               "disk_free": {"/": 3700000000000}}
    errors:
      description: Why a probe has no answer, by the key it would have filled.
      type: dict
      returned: always
      sample: {"gpus": "nvidia-smi is not installed"}
history:
  description: What the host's logs say.
  returned: with O(history)
  type: dict
  contains:
    packages:
      description:
        - The change that made each package what it is, by which command, for whom and when. Packages the logs do not
          name are left out.
        - What went past apt, as C(dpkg -i) does, is told by dpkg's log alone.
      type: dict
      returned: when packages were named
      sample: {"nvidia-utils-580": {"action": "upgrade", "before": "580.95.05-0ubuntu0.24.04.2",
               "after": "580.126.09-0ubuntu0.24.04.2", "at": "2026-11-14T06:12:03Z",
               "command": "/usr/bin/unattended-upgrade", "requested_by": "", "error": "", "ended": true, "log": "apt"}}
    since:
      description: How far back the logs were read.
      type: str
      returned: when packages were named
      sample: "2026-10-01T00:00:00Z"
    paths:
      description: When each file was last written; for one that is not there, when its directory was last changed.
      type: dict
      returned: when paths were named
      sample: {"/etc/docker/daemon.json": {"changed": "2026-11-14T06:12:03Z"}}
    units:
      description: State of each unit, since when, and how it ended.
      type: dict
      returned: when units were named
      sample: {"docker.service": {"state": "inactive", "since": "Sat 2026-11-14 06:12:03 UTC", "result": "success"}}
    sysctl:
      description: The file that has the last word on each setting at boot, and its value there.
      type: dict
      returned: when kernel settings were named
      sample: {"vm.swappiness": {"path": "/etc/sysctl.d/99-local.conf", "value": "60"}}
    fwupd:
      description: Every update of firmware that fwupd has in its history, oldest first.
      type: list
      elements: dict
      returned: when asked for, and fwupd is there
      sample: [{"device": "UEFI Device Firmware", "before": "0x03000006", "after": "0x03000007",
                "at": "2026-11-14T06:12:03Z", "state": "success"}]
    boot:
      description: When the host booted.
      type: str
      returned: always
      sample: "2026-11-14T06:20:41Z"
    errors:
      description: What could not be read, and why.
      type: dict
      returned: always
      sample: {}
serial:
  description: The serial number; empty where the firmware has none.
  returned: with O(serial)
  type: str
  sample: "1423725010001"
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import CHECK, is_coming
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import KIND as GPU_HEALTH
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.change_log import read_changes
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.observation import observe_host
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.probes import read_serial
from ansible_collections.firstlight.cluster.plugins.module_utils.state import (
    host_kinds,  # noqa: F401 - registers the links that are compared here
)
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import differences

SETTLING = ("links", "rdma", GPU_HEALTH)
"""Kinds of state that become right by themselves a while after a change or a boot."""


def settled(look: Callable[[], dict[str, Any]], desired: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The first observation in which no port or GPU is on its way any more, or the last one in this time."""
    deadline = time.monotonic() + seconds
    while True:
        observation = look()
        states = [{kind: state[kind] for kind in SETTLING if kind in state} for state in desired.values()]
        wrong = [one for state in states for one in differences(state, observation)]
        moving = any(one["kind"] != CHECK for one in wrong)
        coming = is_coming(one["key"] for one in wrong if one["kind"] == CHECK)
        if not (moving or coming) or time.monotonic() >= deadline:
            return observation
        time.sleep(1)


def main() -> None:
    """Read what the desired states name and hand it back."""
    module = AnsibleModule(
        argument_spec={
            "desired": {"type": "dict", "default": {}},
            "history": {
                "type": "dict",
                "options": {
                    "packages": {"type": "dict", "default": {}},
                    "paths": {"type": "list", "elements": "str", "default": []},
                    "units": {"type": "list", "elements": "str", "default": []},
                    "sysctl": {"type": "list", "elements": "str", "default": []},
                    "fwupd": {"type": "bool", "default": False},
                },
            },
            "serial": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 30},
            "settle": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    asked, host = module.params, Host()
    further: dict[str, Any] = {}
    try:
        observation = settled(
            lambda: observe_host(host, asked["desired"], asked["timeout"]), asked["desired"], asked["settle"]
        )
        if asked["history"]:
            further["history"] = read_changes(host, **asked["history"], timeout=asked["timeout"])
        if asked["serial"]:
            further["serial"] = read_serial(host)
    except (ValueError, TypeError, AttributeError) as error:
        module.fail_json(msg=f"desired is not a mapping of roles to desired states: {error}")
    except OSError as error:
        module.fail_json(msg=f"This host cannot be read: {error}. Run with become: most of it needs root's rights.")
    else:
        module.exit_json(changed=False, observation=observation, **further)


if __name__ == "__main__":
    main()
