# SPDX-License-Identifier: Apache-2.0
"""What is reachable from outside: the endpoint, the metrics page, and the firewall in front of them."""
