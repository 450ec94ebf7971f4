# SPDX-License-Identifier: Apache-2.0
"""Fields of the catalog's stacks entries (catalog/README.md says what each means)."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog_fields import COMMON, NULL, Field

FIELDS: dict[str, Field] = {
    **COMMON,
    "distributions": Field((list,), required=False, items={"distribution": Field((str,)), "version": Field((str,))}),
    "packages": Field((dict,)),
    "driver": Field((dict,), required=False),
    "daemon": Field((dict,), required=False),
    "image": Field(
        (dict,),
        fields={
            "repository": Field((str,)),
            "digest": Field((str, NULL)),
            "size_bytes": Field((int,)),
            "note": Field((str,), required=False),
        },
    ),
    "requires": Field((dict,)),
    "weights_endpoint": Field((str,), required=False),
}
