# SPDX-License-Identifier: Apache-2.0
"""The image of a plan."""
