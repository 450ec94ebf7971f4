# SPDX-License-Identifier: Apache-2.0
"""The model of a plan and its files."""
