# SPDX-License-Identifier: Apache-2.0
"""One text of the workload and its parts, for an interpreter that knows nothing of this project."""

from __future__ import annotations

from ...bundle import bundle
from . import workload


def program() -> str:
    """The source of the whole workload; its arguments are those of `workload`."""
    root = workload.__name__.removesuffix(".gpu.burn_in.workload")
    return bundle(workload.__name__, root, "The burn-in workload.")
