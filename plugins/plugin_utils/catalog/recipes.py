# SPDX-License-Identifier: Apache-2.0
"""Fields of the catalog's recipe entries (catalog/README.md describes each field)."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, NULL, Field

_TEXT = Field((str,))

FIELDS: dict[str, Field] = {
    **COMMON,
    "architecture": _TEXT,
    "python": _TEXT,
    "base": Field((dict,), fields={"repository": _TEXT, "tag": _TEXT, "digest": Field((str, NULL))}),
    "packages": Field((list,)),
    "apt": Field(
        (dict, NULL),
        fields={
            "uri": _TEXT,
            "snapshot": _TEXT,
            "suites": Field((list,)),
            "components": Field((list,)),
            "keyring": _TEXT,
        },
    ),
    "lock": _TEXT,
    "environment": Field((dict,), required=False, values=_TEXT),
}
