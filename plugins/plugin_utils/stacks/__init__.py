# SPDX-License-Identifier: Apache-2.0
"""The rules between the parts of a stack."""
