# SPDX-License-Identifier: Apache-2.0
"""Fields of the catalog's source entries (catalog/README.md describes each field)."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, NULL, Field, Range

_TEXT = Field((str,), required=False)
_LIST = Field((list,), required=False)

FIELDS: dict[str, Field] = {
    **COMMON,
    "kind": Field((str,)),
    "repositories": Field(
        (list,),
        required=False,
        items={"distribution": _TEXT, "version": _TEXT, "architecture": _TEXT, "uris": Field((list,)), "suites": _LIST},
    ),
    "suites": _LIST,
    "components": _LIST,
    "fingerprint": Field((str, list), required=False),
    "key": Field((str, NULL), required=False),
    "revisions": _LIST,
    "branchless_from": Field((int,), required=False, range=Range(least=1)),
}
