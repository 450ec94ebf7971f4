# SPDX-License-Identifier: Apache-2.0
"""What several hosts' GPUs come to, and how they are shown."""
