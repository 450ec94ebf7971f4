# SPDX-License-Identifier: Apache-2.0
"""What looks at, waits for, stops and takes away what serves on a host."""
