# SPDX-License-Identifier: Apache-2.0
"""What the connectivity test of all hosts together says, and which part is at fault."""
