# SPDX-License-Identifier: Apache-2.0
"""One launch description for every engine, and the commands rendered from it."""
