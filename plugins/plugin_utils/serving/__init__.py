# SPDX-License-Identifier: Apache-2.0
"""What an operator is told of a serving cluster, and what is evaluated before it is changed."""
