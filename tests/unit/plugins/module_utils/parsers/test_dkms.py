# SPDX-License-Identifier: Apache-2.0
"""DKMS of every release that a host may have; the texts are those of dkms-project/dkms and of public logs."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dkms import (
    Build,
    last_lines,
    parse_dkms_status,
    parse_failed_build,
)

DIFF = "WARNING! Diff between built and installed module!"
MISSING = "Built modules are missing in the kernel modules folder"


@pytest.mark.parametrize(
    ("line", "build", "sound"),
    [
        # 2.8 of Ubuntu 20.04, and 2.8.7 of 22.04
        (
            "nvidia, 510.47.03, 5.4.0-109-generic, x86_64: installed",
            Build("nvidia", "510.47.03", "5.4.0-109-generic", "installed"),
            True,
        ),
        ("nvidia, 510.47.03: added", Build("nvidia", "510.47.03", None, "added"), False),
        (
            "nvidia/510.47.03, 5.15.0-27-generic, x86_64: installed",
            Build("nvidia", "510.47.03", "5.15.0-27-generic", "installed"),
            True,
        ),
        # 3.0.11 of Ubuntu 24.04
        ("nvidia/580.95.05: added", Build("nvidia", "580.95.05", None, "added"), False),
        (
            "nvidia/580.95.05, 6.8.0-60-generic, x86_64: built",
            Build("nvidia", "580.95.05", "6.8.0-60-generic", "built"),
            False,
        ),
        (
            "nvidia-srv/580.95.05, 6.8.0-60-generic, x86_64: installed (original_module exists)",
            Build("nvidia-srv", "580.95.05", "6.8.0-60-generic", "installed", ("original_module exists",)),
            True,
        ),
        (
            "nvidia/580.95.05, 6.8.0-60-generic, x86_64: installed (WARNING! Missing some built modules!)",
            Build("nvidia", "580.95.05", "6.8.0-60-generic", "installed", ("WARNING! Missing some built modules!",)),
            False,
        ),
        (
            f"nvidia/580.95.05, 6.8.0-60-generic, x86_64: installed ({DIFF}) ({DIFF})",
            Build(
                "nvidia",
                "580.95.05",
                "6.8.0-60-generic",
                "installed",
                (DIFF, DIFF),
            ),
            False,
        ),
        # 3.1.8 and 3.2.1 of NVIDIA's repository
        (
            "nvidia/580.126.20, 6.8.0-60-generic, aarch64: installed (Original modules exist)",
            Build("nvidia", "580.126.20", "6.8.0-60-generic", "installed", ("Original modules exist",)),
            True,
        ),
        (
            f"nvidia/580.126.20, 6.8.0-60-generic, x86_64: installed ({MISSING})",
            Build(
                "nvidia",
                "580.126.20",
                "6.8.0-60-generic",
                "installed",
                (MISSING,),
            ),
            False,
        ),
        (
            "nvidia/580.126.20, 6.8.0-60-generic, x86_64: installed (Differences between built and installed modules)",
            Build(
                "nvidia",
                "580.126.20",
                "6.8.0-60-generic",
                "installed",
                ("Differences between built and installed modules",),
            ),
            False,
        ),
        ("nvidia/580.126.20: broken", Build("nvidia", "580.126.20", None, "broken"), False),
        # weak modules, in the old form in any release
        (
            "nvidia, 580.126.20, 6.8.0-61-generic, x86_64: installed-weak from 6.8.0-60-generic",
            Build("nvidia", "580.126.20", "6.8.0-61-generic", "installed-weak"),
            True,
        ),
    ],
)
def test_a_row_of_the_status(line: str, build: Build, sound: bool) -> None:
    assert parse_dkms_status(f"{line}\n") == [build]
    assert build.sound is sound


def test_other_modules_and_complaints_are_left_out() -> None:
    text = (
        "Error! nvidia/580.126.20: Missing the module source directory or the symbolic link pointing to it.\n"
        "nvidia-fs/2.25.7, 6.8.0-60-generic, x86_64: installed\n"
        "mlnx-ofed-kernel/24.10, 6.8.0-60-generic, x86_64: installed\n\n"
        "nvidia/580.126.20, 6.8.0-60-generic, x86_64: installed\n"
    )
    assert [one.version for one in parse_dkms_status(text)] == ["580.126.20"]
    assert parse_dkms_status("") == []


DPKG = """Building initial module for 6.17.9-76061709-generic
ERROR (dkms apport): kernel package linux-headers-6.17.9-76061709-generic is not supported
Error! Bad return status for module build on kernel: 6.17.9-76061709-generic (x86_64)
Consult /var/lib/dkms/nvidia/580.119.02/build/make.log for more information.
dpkg: error processing package nvidia-dkms-580-open (--configure):
 installed nvidia-dkms-580-open package post-installation script subprocess returned error exit status 10
"""
"""pop-os/pop#3811, 2026-01-14."""


def test_a_build_that_failed_says_for_which_kernel_and_where_its_log_is() -> None:
    failed = parse_failed_build(DPKG)
    assert failed is not None
    assert (failed.kernel, failed.log) == (
        "6.17.9-76061709-generic",
        "/var/lib/dkms/nvidia/580.119.02/build/make.log",
    )
    assert parse_failed_build(f"Apt failed ({failed.words}).") == failed, "the words can be read again"
    assert parse_failed_build("E: Sub-process /usr/bin/dpkg returned an error code (1)\n") is None


MAKE_LOG = """DKMS make.log for nvidia-580.119.02 for kernel 7.0.0-28-generic (x86_64)
make[1]: Entering directory '/usr/src/linux-headers-7.0.0-28-generic'
  CC [M]  nvidia/nv.o
nvidia/nv.c:42:9: error: implicit declaration of function 'a'
nvidia/nv.c:43:9: error: implicit declaration of function 'b'
nvidia/nv.c:44:9: error: implicit declaration of function 'c'
nvidia/nv.c:45:9: error: implicit declaration of function 'd'
make[1]: *** [Makefile:248: __sub-make] Error 2
make: *** [Makefile:115: modules] Error 2
"""


def test_the_log_of_a_build_is_quoted_by_its_errors_and_its_end() -> None:
    assert last_lines(MAKE_LOG) == [
        "nvidia/nv.c:42:9: error: implicit declaration of function 'a'",
        "nvidia/nv.c:43:9: error: implicit declaration of function 'b'",
        "nvidia/nv.c:44:9: error: implicit declaration of function 'c'",
        "make[1]: *** [Makefile:248: __sub-make] Error 2",
        "make: *** [Makefile:115: modules] Error 2",
    ]
    assert last_lines("one line\n") == ["one line"]
    assert last_lines(None) == []
