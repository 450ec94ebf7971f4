# SPDX-License-Identifier: Apache-2.0
"""The driver role on a host whose initial file system cannot be made: it fails, and the next run makes it."""

from __future__ import annotations

import grp
import json
import os
import pwd
import sys
from pathlib import Path

import pytest

from tests.unit.ansible_runs import ROOT, run_playbook

pytestmark = [pytest.mark.hostile, pytest.mark.slow]  # four runs of Ansible


def test_a_full_boot_partition_is_told_and_the_next_run_makes_it(tmp_path: Path) -> None:
    file, program, full = tmp_path / "nouveau.conf", tmp_path / "update-initramfs", tmp_path / "full"
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >>{tmp_path}/asked\n'
        f'[ ! -e {full} ] || {{ echo "zstd: No space left on device" >&2; exit 1; }}\n'
    )
    program.chmod(0o755)
    wanted = {
        "content": "blacklist nouveau\n",
        "mode": "0644",
        "owner": pwd.getpwuid(os.getuid()).pw_name,
        "group": grp.getgrgid(os.getgid()).gr_name,
    }
    variables = {
        "__nvidia_driver_nouveau": wanted,
        "__nvidia_driver_nouveau_file": str(file),
        "__nvidia_driver_update_initramfs": str(program),
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    tasks = [{"ansible.builtin.include_tasks": f"{ROOT}/roles/nvidia_driver/tasks/nouveau.yml"}]
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}]))

    full.touch()
    run = run_playbook("-i", "node,", str(play))
    assert run.returncode == 2, run.stdout
    told = " ".join(run.stdout.split())
    assert "update-initramfs returned 1 (zstd: No space left on device)" in told
    assert "make room in /boot" in told
    checked = run_playbook("-i", "node,", "--check", str(play))
    assert "changed=1" in checked.stdout, "a run that only checks tells that it is not done"
    full.unlink()
    run = run_playbook("-i", "node,", str(play))
    assert run.returncode == 0, run.stdout
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("blacklist nouveau\n", 0o644)
    run = run_playbook("-i", "node,", str(play))
    assert "changed=0" in run.stdout
    assert (tmp_path / "asked").read_text() == "-u\n-u\n"
