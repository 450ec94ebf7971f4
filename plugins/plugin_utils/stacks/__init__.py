# SPDX-License-Identifier: Apache-2.0
"""Rules between the parts of a stack."""
