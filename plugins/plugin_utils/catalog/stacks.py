# SPDX-License-Identifier: Apache-2.0
"""Fields of the catalog's stack entries (catalog/README.md describes each field)."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, NULL, Field, Range

_VERSION = Field((str, NULL), required=False)
_VERSIONS = Field((dict,), required=False)
_SWITCH = Field((bool,), required=False)

_DRIVER = {
    "policy": Field((str,), required=False),
    "version": _VERSION,
    "branch": _VERSION,
    "flavour": _VERSION,
    "source": _VERSION,
    "packages": _VERSIONS,
    "fabric_manager": Field(
        (dict, NULL),
        required=False,
        fields={"package": Field((str,)), "version": Field((str, NULL)), "revision": _VERSION},
    ),
    "nvswitch": _VERSIONS,
}

FIELDS: dict[str, Field] = {
    **COMMON,
    "distributions": Field((list,), required=False, items={"distribution": Field((str,)), "version": Field((str,))}),
    "packages": Field((dict,)),
    "package_sources": _VERSIONS,
    "driver": Field((dict,), required=False, fields=_DRIVER),
    "cuda": Field(
        (dict,),
        required=False,
        fields={
            "toolkit": _VERSION,
            "packages": _VERSIONS,
            "source": _VERSION,
            "in_image": _VERSION,
            "in_wheels": _VERSION,
        },
    ),
    "nccl": _VERSION,
    "python": _VERSION,
    "ray": Field(
        (dict,),
        required=False,
        # locks: lock files of the Ray layer by variant (alone, metrics, serve), with a hash for every wheel.
        fields={"version": _VERSION, "in_image": _SWITCH, "added": _SWITCH, "locks": _VERSIONS},
    ),
    "engine": Field((dict,), required=False, fields={"name": Field((str,)), "version": Field((str,))}),
    "runtime": Field((str,), required=False),
    "hardware": Field((list,), required=False),
    "venv": Field(
        (dict,), required=False, fields={"path": Field((str,)), "requirements": Field((dict,)), "lock": _VERSION}
    ),
    "daemon": Field((dict,), required=False),
    # null for a stack whose engine is installed in a virtual environment.
    "image": Field(
        (dict, NULL),
        fields={
            "repository": Field((str,)),
            "base": Field((str,), required=False),
            "build": Field((str,), required=False),
            "digest": Field((str, NULL)),
            "size_bytes": Field((int,), range=Range(least=0)),
            "note": Field((str,), required=False),
        },
    ),
    "requires": Field((dict,)),
    "weights_endpoint": Field((str,), required=False),
}
