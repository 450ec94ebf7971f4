# SPDX-License-Identifier: Apache-2.0
"""Fields of the catalog's models entries (catalog/README.md says what each means)."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog_fields import COMMON, NULL, Field

FIELDS: dict[str, Field] = {
    **COMMON,
    "repository": Field((str,)),
    "revision": Field((str, NULL)),
    "size_bytes": Field((int, NULL), required=False),
    "context": Field((int, NULL), required=False),
    "quantization": Field((str, NULL), required=False),
}
