# SPDX-License-Identifier: Apache-2.0
"""What only the endpoint's host may read: the keys of its clients, its certificate, and how they are kept."""
