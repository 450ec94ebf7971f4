# SPDX-License-Identifier: Apache-2.0
"""Fields of the catalog's hardware entries (catalog/README.md says what each means)."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, NULL, Field

_NUMBER = (int, float)
_NUMBER_OR_NULL = (int, float, NULL)

FIELDS: dict[str, Field] = {
    **COMMON,
    "gpus": Field((int,)),
    "gpu_name": Field((str,)),
    "memory_mib": Field((int, NULL)),
    "os_visible_mib": Field((int, NULL), required=False),
    "unified": Field((bool,)),
    "utilisation_ceiling": Field((float,)),
    "headless": Field((bool,), required=False),
    "topology": Field((str,)),
    "compute_capability": Field((str,), required=False),
    "fp8": Field((bool,), required=False),
    "memory_bandwidth_gb_s": Field(_NUMBER, required=False),
    "tflops": Field((dict,), required=False, fields={"bf16": Field(_NUMBER), "fp8": Field(_NUMBER)}),
    "power_limit_w": Field((int, NULL), required=False),
    "host_power_w": Field(
        (dict,), required=False, fields={"sustained": Field((int, NULL)), "transient": Field((int, NULL))}
    ),
    "pair": Field((str, NULL), required=False),
    "nvswitch": Field((bool,), required=False),
    "links_per_gpu": Field((int,), required=False),
    "link_gb_s": Field(_NUMBER_OR_NULL, required=False),
    "interconnect": Field(
        (dict,),
        required=False,
        fields={
            "kind": Field((str,)),
            "bandwidth_gb_s": Field(_NUMBER_OR_NULL),
            "latency_us": Field((dict, NULL)),
        },
    ),
    "fabric": Field(
        (dict,),
        fields={
            "rdma": Field((bool,)),
            "rails": Field((int,), required=False),
            "speed_gb_s": Field(_NUMBER_OR_NULL, required=False),
            "latency_us": Field((dict, NULL), required=False),
            "ports": Field((list,), items={"port": Field((str,)), "rdma_device": Field((str, NULL), required=False)}),
        },
    ),
}
"""What only the advice and the checks of the GPUs use may be left out: a site's own entry then gets no figures."""
