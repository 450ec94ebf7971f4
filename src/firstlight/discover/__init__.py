# SPDX-License-Identifier: Apache-2.0
"""Which machines are on the management network, and what they are. Nothing is installed and nothing is changed."""
