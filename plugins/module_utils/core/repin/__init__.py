# SPDX-License-Identifier: Apache-2.0
"""Moving a host from one exact set of packages to another, and back: its journal, its transaction, its next step.

Everything here is pure. The journal is a plain dict that lives on the host, so that any controller can go on with a
move that another one began.
"""
