# SPDX-License-Identifier: Apache-2.0
"""The host's half of a move from one set of packages to another: the actions of the module `repin`."""
