# SPDX-License-Identifier: Apache-2.0
"""What is open to others: the endpoint, the metrics page, and the firewall in front of them."""
