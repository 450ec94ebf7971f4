# SPDX-License-Identifier: Apache-2.0
"""From a few lines on a rack to its hosts: names, addresses, groups."""
