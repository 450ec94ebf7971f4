# SPDX-License-Identifier: Apache-2.0
"""The lab's stand-in for NVIDIA's user space, as it runs on a node.

Each stub package installs its own copy under /usr/lib/firstlight-lab, as they can be installed in any combination.
Standard library only, because a node has nothing else. The machine to simulate is read from
/etc/firstlight-lab/machine.json.
"""
