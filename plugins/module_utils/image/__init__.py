# SPDX-License-Identifier: Apache-2.0
"""Container images: references, archives, contents, recipes, and how a host obtains one."""
