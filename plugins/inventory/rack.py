# SPDX-License-Identifier: Apache-2.0
"""The inventory `rack`: expand short rack descriptions to hosts with addresses and groups."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rack
short_description: Describe racks of GPU hosts in a few lines each
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Every rack of the file becomes its hosts, with the address they are managed at, their place in the fabric, their
    rack and position, and the groups that the playbooks of this collection expect.
  - A host's name and addresses follow from its own rack and position alone. A node or a rack that is added never moves
    another, and one that is taken out leaves a hole.
  - All that is wrong with a file is reported at once, each with what was found, the rule and what to change. No host is
    contacted.
  - What is wanted of the hosts (stack, model, rails) stays in C(group_vars).
  - The groups are C(cluster) with C(head) and C(workers), C(rack_NAME) for every rack, and C(cluster_NAME) for every
    cluster that is named.
  - The file is called C(rack.yml), C(racks.yml) or anything that ends with C(.rack.yml) or C(.racks.yml); C(.yaml) will
    do as well.
options:
  plugin:
    description: Marks this file as one for this plugin.
    type: str
    required: true
    choices: [firstlight.cluster.rack]
  cluster:
    description:
      - Where the racks are several clusters, the one that a run is for. Its hosts are in the group C(cluster); those of
        the others are in the groups of their rack and their cluster only. It is said in the environment, not in the
        file.
      - Where none is chosen there is no group C(cluster), and a playbook stops before it touches a host.
    type: str
    env:
      - name: FIRSTLIGHT_CLUSTER
  racks:
    description: The racks.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Small letters, digits and C(_). The rack is the group C(rack_NAME).
        type: str
        required: true
      cluster:
        description: The cluster it belongs to; either no rack of the file has one, or every rack has.
        type: str
      prefix:
        description: What the names of its hosts begin with; the position follows.
        type: str
        required: true
      digits:
        description: How many digits a position has in a name at least.
        type: int
        default: 1
      count:
        description: How many positions there are, from 1. This or O(racks[].serials).
        type: int
      serials:
        description:
          - The serial of each node, as a mapping of positions to serials, or as a list that counts from 1, with null
            for a position without a node. Serials are text, in quotes.
        type: raw
      absent:
        description: Positions without a node. Their names and addresses stay free.
        type: list
        elements: int
      head:
        description: The position of the head, in one rack of each cluster.
        type: int
      hardware:
        description: A name in C(catalog/hardware/), which becomes C(firstlight_hardware) of its hosts.
        type: str
      management:
        description:
          - Where the nodes are reached, as a range of IPv4 addresses, whose first is position 1, or as a subnet, whose
            address .10 is position 1.
        type: str
      addresses:
        description:
          - Instead of O(racks[].management), where the addresses follow no range, as a mapping of positions to IPv4
            addresses. Every node of the rack has one.
        type: dict
      reach:
        description:
          - Instead of O(racks[].management), the name that a node is reached by, with C({name}), C({position}) or
            C({serial}) in it. Without either a node is reached by its name.
        type: str
      fabric:
        description:
          - Where the rack's addresses lie in the subnet of every rail, as V(10-41). Position 1 has the first. Needed
            where the cluster has several hosts.
        type: str
      power_w:
        description: What the rack can give, W. The plan refuses hosts that may take more.
        type: float
      units:
        description: How many units of height the rack has. The plan refuses hosts that need more.
        type: float
"""

EXAMPLES = r"""
# spark.rack.yml: four DGX Sparks and a second rack with room to grow, one cluster
plugin: firstlight.cluster.rack
racks:
  - name: a
    prefix: spark-a
    count: 4
    head: 1
    hardware: gb10
    management: 10.20.1.11-10.20.1.42
    fabric: 10-41
    power_w: 3000
  - name: b
    prefix: spark-b
    serials: {1: "1423725010001", 2: "1423725010007"}
    hardware: gb10
    management: 10.20.2.11-10.20.2.42
    fabric: 42-73
    power_w: 3000

# ansible-inventory -i spark.rack.yml --graph
# @all:
#   |--@cluster:
#   |  |--@head:
#   |  |  |--spark-a1
#   |  |--@workers:
#   |  |  |--spark-a2
#   ...
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.expand import RackError, expand

NAMES = tuple(f"{stem}.{ending}" for stem in ("rack", "racks") for ending in ("yml", "yaml"))


class InventoryModule(BaseInventoryPlugin):
    """Inventory of the hosts of racks."""

    NAME = "firstlight.cluster.rack"

    def verify_file(self, path: str) -> bool:
        """Return whether the file is named like a rack file; any other name would be unexpected for this plugin."""
        name = Path(path).name
        return bool(super().verify_file(path)) and any(name == one or name.endswith(f".{one}") for one in NAMES)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Read and expand the file, and add its hosts and groups to the inventory."""
        super().parse(inventory, loader, path, cache)
        document = loader.load_from_file(path, cache="none")
        try:
            self._read_config_data(path)
            expansion = expand(document, self.get_option("cluster"))
        except RackError as error:
            raise AnsibleParserError(f"{path}: {error}") from error
        for note in expansion.notes:
            self.display.warning(f"{path}: {note}")
        for host, variables in expansion.hosts.items():
            inventory.add_host(host)
            for name, value in variables.items():
                inventory.set_variable(host, name, value)
        for group in (*expansion.children, *expansion.groups):
            inventory.add_group(group)
        for group, hosts in expansion.groups.items():
            for host in hosts:
                inventory.add_child(group, host)
        for group, children in expansion.children.items():
            for child in children:
                inventory.add_child(group, child)
