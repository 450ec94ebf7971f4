# SPDX-License-Identifier: Apache-2.0
"""What a cluster was measured to do, and what that comes to beside its plan."""
