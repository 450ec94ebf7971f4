# SPDX-License-Identifier: Apache-2.0
"""Read the hosts of an inventory strictly."""
