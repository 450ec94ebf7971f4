#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build what every lab is made from (file system, packages, engine image), where it is not there yet: a lab that ends at once.
set -euo pipefail
cd "$(dirname "$0")/.."
trap 'firstlight lab down --name images' EXIT
firstlight lab up --name images --nodes 1
