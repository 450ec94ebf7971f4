# SPDX-License-Identifier: Apache-2.0
"""The lookup `openpgp_key`: a public key of an apt repository from a file, in the form that apt takes everywhere."""

from __future__ import annotations

DOCUMENTATION = r"""
name: openpgp_key
short_description: Read an OpenPGP public key, binary or ASCII-armored
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Reads a key file on the controller and returns it ASCII-armored. Repositories publish their keys in both forms.
  - Relative paths are looked for as P(ansible.builtin.file#lookup) does.
options:
  _terms:
    description: Paths of the files.
    type: list
    elements: path
    required: true
"""

EXAMPLES = r"""
- name: Show a key
  ansible.builtin.debug:
    msg: "{{ lookup('firstlight.cluster.openpgp_key', 'cuda-archive-keyring.gpg') }}"
"""

RETURN = r"""
_raw:
  description: The keys, ASCII-armored.
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.firstlight.cluster.plugins.module_utils.core.parsers.openpgp import armored


class LookupModule(LookupBase):
    """Keys from files."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """One key a path."""
        self.set_options(var_options=variables, direct=kwargs)
        return [self._key(str(term), variables or {}) for term in terms]

    def _key(self, term: str, variables: dict[str, Any]) -> str:
        path = self.find_file_in_search_path(variables, "files", term, ignore_missing=True)
        if not path:
            raise AnsibleLookupError(f"The key file {term} is not there, expected a public key: correct the path.")
        try:
            return armored(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            raise AnsibleLookupError(f"The key file {path} cannot be used: {error}") from error
