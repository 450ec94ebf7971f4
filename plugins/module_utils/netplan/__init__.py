# SPDX-License-Identifier: Apache-2.0
"""A change of the netplan configuration: assessed, tried in a scratch root, applied, and undone unless confirmed."""
