#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: step.sh HEADING COMMAND [ARGUMENT...]
# Run one step of a make target under a heading, and end with its verdict and times. The status is the command's own.
set -uo pipefail
heading=$1
shift
began=$(date +%s)
total() { echo $(($(date +%s) - ${STEP_STARTED:-$began})); }

printf '\n==> %s\n' "$heading"
"$@"
status=$?
if ((status == 0)); then verdict=done; else verdict="FAILED with status $status"; fi
printf -- '<== %s: %s in %d s (%d s since the start)\n' "$heading" "$verdict" $(($(date +%s) - began)) "$(total)"
exit "$status"
