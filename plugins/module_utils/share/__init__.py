# SPDX-License-Identifier: Apache-2.0
"""One node hands out what it has proven to the others of its cluster."""
