# SPDX-License-Identifier: Apache-2.0
"""The benchmark part of a plan: what is measured, and what is expected."""
