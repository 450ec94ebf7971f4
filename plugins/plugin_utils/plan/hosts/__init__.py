# SPDX-License-Identifier: Apache-2.0
"""The hosts of a plan: rack, power, connections, and requirements common to all of them."""
