# SPDX-License-Identifier: Apache-2.0
"""The plan of a cluster, from intent and catalog to the variables and desired state of every host."""
