# SPDX-License-Identifier: Apache-2.0
"""The plan: everything put together."""
