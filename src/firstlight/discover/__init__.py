# SPDX-License-Identifier: Apache-2.0
"""Find and identify the machines on the management network, without installing or changing anything."""
