# SPDX-License-Identifier: Apache-2.0
"""Fields of the catalog's hardware entries (catalog/README.md says what each means)."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog_fields import COMMON, NULL, Field

FIELDS: dict[str, Field] = {
    **COMMON,
    "gpus": Field((int,)),
    "gpu_name": Field((str,)),
    "memory_mib": Field((int, NULL)),
    "unified": Field((bool,)),
    "utilisation_ceiling": Field((float,)),
    "headless": Field((bool,), required=False),
    "topology": Field((str,)),
    "fabric": Field(
        (dict,),
        fields={
            "rdma": Field((bool,)),
            "ports": Field((list,), items={"port": Field((str,)), "rdma_device": Field((str, NULL), required=False)}),
        },
    ),
}
