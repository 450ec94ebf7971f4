# SPDX-License-Identifier: Apache-2.0
"""`python3 -m sglang.launch_server` of the image that stands for SGLang's."""

import sys

from stand_in import sglang

if __name__ == "__main__":
    sglang(sys.argv[1:])
