# SPDX-License-Identifier: Apache-2.0
"""The checks by subject: each function looks at readings and says what it finds, and what it could not find."""
