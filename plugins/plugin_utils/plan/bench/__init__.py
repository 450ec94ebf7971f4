# SPDX-License-Identifier: Apache-2.0
"""What is measured of a plan, and what is expected."""
