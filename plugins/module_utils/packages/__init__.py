# SPDX-License-Identifier: Apache-2.0
"""Sets of packages as apt has them: what is to move, the rehearsal, the local store, the way back."""
