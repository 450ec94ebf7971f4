# SPDX-License-Identifier: Apache-2.0
"""Reading an inventory so that nobody in it is left out in silence, whichever ansible.cfg is read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from ansible import constants
from ansible.inventory import manager


@contextlib.contextmanager
def strict_inventory() -> Iterator[None]:
    """While this lasts, a file that Ansible cannot read is an error; by default its hosts are silently missing."""
    own, ignored = vars(constants), manager.IGNORED
    usual = own["INVENTORY_ANY_UNPARSED_IS_FAILED"]
    own["INVENTORY_ANY_UNPARSED_IS_FAILED"] = True
    # The host keys that `firstlight bootstrap` pins beside an inventory are no hosts.
    manager.IGNORED = re.compile(ignored.pattern + rb"|^known_hosts")
    try:
        yield
    finally:
        own["INVENTORY_ANY_UNPARSED_IS_FAILED"], manager.IGNORED = usual, ignored
