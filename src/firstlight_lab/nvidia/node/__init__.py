# SPDX-License-Identifier: Apache-2.0
"""The lab's stand-in for NVIDIA's user space, as it runs on a node.

The stub packages install it under /usr/lib/firstlight-lab, each its own copy as they are installed in any
combination. Standard library only, because a node has nothing else. Which machine to be is read from
/etc/firstlight-lab/machine.json.
"""
