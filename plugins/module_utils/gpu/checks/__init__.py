# SPDX-License-Identifier: Apache-2.0
"""The checks by subject: each function examines readings and reports what it finds, and what it could not find."""
