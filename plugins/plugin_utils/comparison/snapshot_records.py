# SPDX-License-Identifier: Apache-2.0
"""The result of re-reading a model's files, as a record of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import COULD_NOT_CHECK, FAIL, PASS

from .records import Record, make_record

RECORD_ID = "weights.bytes"
REPAIR = "run site.yml with -e weights_rehash=true, which reads all files and fetches the wrong ones again"
MOST = 5


def bytes_record(host: str, result: Mapping[str, Any]) -> Record:
    """Return the one record; `result` is the result of module `model_snapshot`, or why it has none."""
    expected = "every file as it was verified"
    problems = result.get("problems")
    if result.get("failed") or result.get("unreachable") or not isinstance(problems, list):
        reason = " ".join(str(result.get("msg") or "it gave no answer").split())
        remedy = f"make {host} answer, then run verify.yml again"
        return make_record(RECORD_ID, host, expected, reason, COULD_NOT_CHECK, remedy)
    if problems:
        more = f" and {len(problems) - MOST} more" if len(problems) > MOST else ""
        return make_record(RECORD_ID, host, expected, "; ".join(problems[:MOST]) + more, FAIL, REPAIR)
    return make_record(RECORD_ID, host, expected, f"all {result.get('files')} files as they were verified", PASS)
