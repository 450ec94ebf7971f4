# SPDX-License-Identifier: Apache-2.0
"""Fields of the catalog's hardware entries, with plausible ranges (catalog/README.md describes each field).

The ranges are far wider than any real machine: they catch a typo or a wrong unit before it reaches a plan.
"""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import BY_HOST
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, NULL, Field, Range

_WHOLE_OR_NULL = (int, NULL)
_NUMBER = (int, float)
_NUMBER_OR_NULL = (int, float, NULL)

_COUNT = Range(least=1, most=1024)
_MIB = Range(least=1, most=1 << 28)
_RATE = Range(above=0, most=1_000_000)
_WATTS = Range(least=1, most=1_000_000)
_GBIT = Range(above=0, most=1600)
_MBIT = Range(least=1, most=10_000_000)
_SHARE = Range(above=0, most=1)
_SECONDS = Range(least=60, most=86_400)
_LATENCY = Field(_NUMBER, range=_RATE)
_LATENCIES = (dict, NULL)

FIELDS: dict[str, Field] = {
    **COMMON,
    "gpus": Field((int,), range=_COUNT),
    "gpus_vary": Field((bool,), required=False),
    "gpu_name": Field((str,)),
    "memory_mib": Field(_WHOLE_OR_NULL, range=_MIB),
    "os_visible_mib": Field(_WHOLE_OR_NULL, required=False, range=_MIB),
    "unified": Field((bool,)),
    "free_at_start_mib": Field(_WHOLE_OR_NULL, required=False, range=_MIB),
    "utilisation_ceiling": Field(_NUMBER, range=Range(above=0, most=1)),
    "headless": Field((bool,), required=False),
    "topology": Field((str,)),
    "compute_capability": Field((str,), required=False),
    "fp8": Field((bool,), required=False),
    "memory_bandwidth_gb_s": Field(_NUMBER, required=False, range=_RATE),
    "memory_efficiency": Field(_NUMBER, required=False, range=_SHARE),
    "tflops": Field(
        (dict,),
        required=False,
        fields={"bf16": Field(_NUMBER, range=_RATE), "fp8": Field(_NUMBER_OR_NULL, range=_RATE)},
    ),
    "burn_in": Field(
        (dict,),
        required=False,
        fields={
            **{share: Field(_NUMBER_OR_NULL, range=_SHARE) for share in ("bf16", "fp8", "bandwidth", "clocks")},
            "fp8_ratio": Field(_NUMBER_OR_NULL, required=False, range=Range(above=0, most=8)),
            "all_reduce_gb_s": Field(_NUMBER_OR_NULL, range=_RATE),
            "host_copy_gb_s": Field(_NUMBER_OR_NULL, required=False, range=_RATE),
        },
    ),
    "startup": Field(
        (dict,),
        required=False,
        fields={
            "disk_read_gb_s": Field(_NUMBER, range=_RATE),
            "usual_read_gb_s": Field(_NUMBER, required=False, range=_RATE),
            "compile_s": Field((int,), range=_SECONDS),
            "progress_timeout_s": Field((int,), range=_SECONDS),
        },
    ),
    "power_limit_w": Field(_WHOLE_OR_NULL, required=False, range=_WATTS),
    "host_power_w": Field(
        (dict,),
        required=False,
        fields={"sustained": Field(_WHOLE_OR_NULL, range=_WATTS), "transient": Field(_WHOLE_OR_NULL, range=_WATTS)},
    ),
    "rack_units": Field(_NUMBER_OR_NULL, required=False, range=Range(above=0, most=100)),
    "architecture": Field((str,), required=False),
    "pair": Field((str, NULL), required=False),
    "nvswitch": Field((bool,), required=False),
    "nvswitches": Field((int,), required=False, range=_COUNT),
    "fabric_manager": Field((str,), required=False, choices=("self", BY_HOST)),
    "links_per_gpu": Field((int,), required=False, range=Range(least=0, most=1024)),
    "link_gb_s": Field(_NUMBER_OR_NULL, required=False, range=_RATE),
    "interconnect": Field(
        (dict,),
        required=False,
        fields={
            "kind": Field((str,)),
            "bandwidth_gb_s": Field(_NUMBER_OR_NULL, range=_RATE),
            "latency_us": Field(_LATENCIES, values=_LATENCY),
        },
    ),
    "fabric": Field(
        (dict,),
        fields={
            "rdma": Field((bool,)),
            "rails": Field((int,), required=False, range=_COUNT),
            "speed_gb_s": Field(_NUMBER_OR_NULL, required=False, range=_RATE),
            "latency_us": Field(_LATENCIES, required=False, values=_LATENCY),
            "link_layer": Field((str, NULL), required=False),
            "minimum_bandwidth": Field(
                (dict,),
                required=False,
                fields={
                    "tcp_gbit": Field(_NUMBER_OR_NULL, range=_GBIT),
                    "rdma_gbit": Field(_NUMBER_OR_NULL, range=_GBIT),
                },
            ),
            "slower": Field(
                (list,),
                required=False,
                items={"speed_mbit": Field((int,), range=_MBIT), "cost": Field((str,))},
            ),
            "ports": Field(
                (list,),
                items={
                    "port": Field((str,)),
                    "rdma_device": Field((str, NULL), required=False),
                    "cage": Field(_WHOLE_OR_NULL, required=False, range=Range(least=0, most=15)),
                    "speed_mbit": Field(_WHOLE_OR_NULL, required=False, range=_MBIT),
                },
            ),
        },
    ),
}
"""Fields that only the advice and the GPU checks use are optional: a site's own entry without them gets no figures."""
