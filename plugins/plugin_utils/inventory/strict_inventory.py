# SPDX-License-Identifier: Apache-2.0
"""Read an inventory so that no host is silently left out, regardless of ansible.cfg."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from ansible import constants
from ansible.inventory import manager


@contextlib.contextmanager
def strict_inventory() -> Iterator[None]:
    """Make an inventory file that Ansible cannot read an error; by default its hosts are silently missing."""
    own, ignored = vars(constants), manager.IGNORED
    usual = own["INVENTORY_ANY_UNPARSED_IS_FAILED"]
    own["INVENTORY_ANY_UNPARSED_IS_FAILED"] = True
    # `firstlight bootstrap` pins host keys in known_hosts files beside an inventory; these contain no hosts.
    manager.IGNORED = re.compile(ignored.pattern + rb"|^known_hosts")
    try:
        yield
    finally:
        own["INVENTORY_ANY_UNPARSED_IS_FAILED"], manager.IGNORED = usual, ignored
