# SPDX-License-Identifier: Apache-2.0
"""What a node tells a monitoring host: pages in the text format of Prometheus, as pure functions of what was read."""
