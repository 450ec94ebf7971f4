# SPDX-License-Identifier: Apache-2.0
"""The hosts of a plan: rack, power, how they are reached, and what every one of them must be."""
