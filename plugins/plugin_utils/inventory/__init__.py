# SPDX-License-Identifier: Apache-2.0
"""What an inventory says of hosts, read strictly."""
