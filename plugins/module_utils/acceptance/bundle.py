# SPDX-License-Identifier: Apache-2.0
"""One text of the workload and its parts, for an interpreter that knows nothing of this project."""

from __future__ import annotations

import inspect
from types import ModuleType

from . import host_copy, measure, sampling, words, workload

_PARTS: tuple[ModuleType, ...] = (words, sampling, host_copy, measure, workload)
"""In the order in which they need each other."""

_LOADER = """\
import sys, types
sys.modules["acceptance"] = package = types.ModuleType("acceptance")
package.__path__ = []
for name, source in {parts!r}:
    module = types.ModuleType("acceptance." + name)
    module.__package__ = "acceptance"
    sys.modules[module.__name__] = module
    exec(compile(source, name + ".py", "exec"), module.__dict__)
sys.modules["acceptance.workload"].main()
"""


def program() -> str:
    """The source of the whole workload; its arguments are those of `workload`."""
    parts = [(part.__name__.rpartition(".")[2], inspect.getsource(part)) for part in _PARTS]
    return _LOADER.format(parts=parts)
