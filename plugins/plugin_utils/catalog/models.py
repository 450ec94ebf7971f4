# SPDX-License-Identifier: Apache-2.0
"""Fields of the catalog's model entries (catalog/README.md describes each field)."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, NULL, Field, Range

_FROM_ONE = Range(least=1)

OBSERVED: dict[str, Field] = {
    "hardware": Field((str,)),
    "gpus": Field((int,), range=_FROM_ONE),
    "tensor_parallel": Field((int,), range=_FROM_ONE),
    "engine": Field((str,)),
    "source": Field((str,)),
    "utilisation": Field((float, NULL), required=False, range=Range(above=0, most=1)),
    "context": Field((int, NULL), required=False),
    "kv_dtype": Field((str,), required=False),
    "max_num_batched_tokens": Field((int,), required=False),
    "max_num_seqs": Field((int,), required=False),
    "speculative_tokens": Field((int,), required=False),
    "weights_gib_per_gpu": Field((float,), required=False),
    "kv_gib_per_gpu": Field((float,), required=False),
    "kv_tokens": Field((int,), required=False),
    "max_concurrency": Field((float,), required=False),
    "note": Field((str,), required=False),
}
"""Published measurements; the tests compare them with computed values."""

FILES: dict[str, Field] = {
    "include": Field((list,), required=False),
    "exclude": Field((list,), required=False),
}
"""Files of the repository that are always downloaded, or always skipped, regardless of the catalog's rules."""

FIELDS: dict[str, Field] = {
    **COMMON,
    "repository": Field((str,)),
    "revision": Field((str, NULL)),
    "size_bytes": Field((int, NULL), required=False, range=_FROM_ONE),
    "files": Field((dict,), required=False, fields=FILES),
    "contents": Field((str, NULL), required=False),
    "context": Field((int, NULL), required=False, range=_FROM_ONE),
    "quantization": Field((str, NULL), required=False),
    "base": Field((str,), required=False),
    "licence": Field((str,), required=False),
    "gated": Field((bool,), required=False),
    "aliases": Field((list,), required=False),
    "minimum": Field((dict,), required=False),
    "config": Field((dict,), required=False),
    "observed": Field((list,), required=False, items=OBSERVED),
}
