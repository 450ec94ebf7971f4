# SPDX-License-Identifier: Apache-2.0
"""The fabric of a plan: rails, subnets and addresses, and the netplan file of each host."""
