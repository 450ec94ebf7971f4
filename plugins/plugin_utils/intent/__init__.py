# SPDX-License-Identifier: Apache-2.0
"""What the operator wants, read out of the inventory and checked."""
