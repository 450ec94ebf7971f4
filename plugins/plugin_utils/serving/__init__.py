# SPDX-License-Identifier: Apache-2.0
"""What an operator is told of a serving cluster, and what is judged before it is changed."""
