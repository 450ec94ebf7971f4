# SPDX-License-Identifier: Apache-2.0
"""A host's part in a Ray cluster."""
