# SPDX-License-Identifier: Apache-2.0
"""The lookup `apt_source`: an APT source with its public key, read from a file if it names one."""

from __future__ import annotations

DOCUMENTATION = r"""
name: apt_source
short_description: Read the OpenPGP public key that a source of packages names
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Returns each source as it is, with C(key) read from the file on the controller that C(key_file) names, if it names
    one. The key is returned ASCII-armored; repositories publish their keys in both forms, binary and armored.
  - Relative paths are looked for as P(ansible.builtin.file#lookup) does.
options:
  _terms:
    description: Sources, each a mapping as O(firstlight.cluster.nvidia_driver#role:main:nvidia_driver_source) is.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show a source with its key
  ansible.builtin.debug:
    msg: "{{ lookup('firstlight.cluster.apt_source', {'uris': ['https://mirror.example'], 'key_file': 'mirror.gpg'}) }}"
"""

RETURN = r"""
_raw:
  description: The sources, with their keys.
  type: list
  elements: dict
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.openpgp import armored


class LookupModule(LookupBase):
    """Returns package sources with their keys."""

    def run(
        self, terms: list[Mapping[str, Any]], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        """Return one source per term."""
        self.set_options(var_options=variables, direct=kwargs)
        return [self._source(term, variables or {}) for term in terms]

    def _source(self, source: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(source, Mapping):
            raise AnsibleLookupError(f"A source of packages is {source!r}, expected a mapping with uris and suites.")
        if not source.get("key_file"):
            return dict(source)
        named = str(source["key_file"])
        path = self.find_file_in_search_path(variables, "files", named, ignore_missing=True)
        if not path:
            raise AnsibleLookupError(f"The key file {named} is not there, expected a public key: correct the path.")
        try:
            return {**source, "key": armored(Path(path).read_bytes())}
        except (OSError, ValueError) as error:
            raise AnsibleLookupError(f"The key file {path} cannot be used: {error}") from error
