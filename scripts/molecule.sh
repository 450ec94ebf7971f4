#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run Molecule. With the names of scenarios: those, one after the other, in one lab. Without: all of them, in two labs side by
# side, because nodes that boot and services that start leave a machine idle. Every lab is started fresh and removed, however it
# ends. MOLECULE_LAB names the lab (the second one has a "-2" behind that), so that several people can run it at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
export MOLECULE_LAB=${MOLECULE_LAB:-molecule}
export MOLECULE_GLOB=${MOLECULE_GLOB:-molecule/*/molecule.yml}
export PATH=$PWD/.venv/bin:$PATH

# Molecule remembers "created" under the name of the checkout's directory: another checkout of that name, or a run that was
# cut off, would make it skip the start of the lab. A directory of its own remembers nothing.
work=$(mktemp -d)
labs=("$MOLECULE_LAB")
workers=()
cleanup() {
  local worker lab
  for worker in "${workers[@]}"; do kill -TERM -- "-$worker" 2>/dev/null || true; done
  for lab in "${labs[@]}"; do firstlight lab down --name "$lab" || true; done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

in_lab() { # LAB ARGUMENT...: molecule in that lab
  local lab=$1
  shift
  mkdir -p "$work/$lab"
  # pytest tidies up its directories of former runs: two at a time, in one place, take them from each other and fail.
  MOLECULE_LAB=$lab MOLECULE_EPHEMERAL_DIRECTORY=$work/$lab PYTEST_DEBUG_TEMPROOT=$work/$lab molecule "$@"
}

if (($#)) && [[ $1 != all ]]; then
  firstlight lab down --name "$MOLECULE_LAB"
  in_lab "$MOLECULE_LAB" test "${@/#/--scenario-name=}"
  exit
fi

# --- all of them -----------------------------------------------------------------------------------------------------
# Lab 1 takes from the front of the list, lab 2 from its back, until they meet. At the front are those that build on what
# the one before has left (an image of a gigabyte), in the middle short ones, so that both labs end at about the same time;
# at the back the longest of the others, and what serves in one is gone before the next looks at its ports. A scenario that is
# not named here is before those.
front=(inference_image gpu_acceptance model_weights ray_cluster inference_server)
middle=(container_runtime cuda_toolkit preflight)
back=(firewall group_keeper monitoring other_engines)
labs=("$MOLECULE_LAB" "$MOLECULE_LAB-2")

queue=("${front[@]}" "${middle[@]}")
for file in molecule/*/molecule.yml; do
  name=$(basename "$(dirname "$file")")
  [[ " default ${queue[*]} ${back[*]} " == *" $name "* ]] || queue+=("$name")
done
queue+=("${back[@]}")
printf '%s\n' "${queue[@]}" >"$work/queue"

take() { # first|last: print a scenario and strike it off the list; none when the list is empty or something has failed
  (
    flock 9
    [[ ! -e $work/failed ]] || exit 0
    case $1 in
      first) sed -n 1p "$work/queue" && sed -i 1d "$work/queue" ;;
      last) sed -n '$p' "$work/queue" && sed -i '$d' "$work/queue" ;;
    esac
  ) 9>"$work/lock"
}

say() { printf '    [%4d s] %-14s %-20s %s\n' "$SECONDS" "$@"; }

# Where it does not write to a terminal, Molecule says "INFO     [host_tuning > converge] Executed: Successful" of every step.
steps() { # LAB SCENARIO: one line for every step that has ended
  local line
  while IFS= read -r line; do
    [[ $line =~ \[([a-z0-9_]+)\ \>\ ([a-z_]+)\]\ Executed:\ (.+) ]] || continue
    if [[ ${BASH_REMATCH[1]} == "$2" ]]; then
      say "$1" "$2" "${BASH_REMATCH[2]}: ${BASH_REMATCH[3],,}"
    elif [[ ! -e $work/$1/up ]]; then # the start of the lab, with its first scenario
      touch "$work/$1/up"
      say "$1" "(the lab)" "${BASH_REMATCH[2]}: ${BASH_REMATCH[3],,}"
    fi
  done
}

work_off() { # LAB first|last
  local lab=$1 end=$2 scenario began passed=()
  firstlight lab down --name "$lab" 2>/dev/null
  while scenario=$(take "$end") && [[ -n $scenario ]]; do
    began=$SECONDS
    if MOLECULE_DONE=${passed[*]} NO_COLOR=1 in_lab "$lab" test --destroy=never --no-command-borders --scenario-name="$scenario" 2>&1 |
      tee "$work/$scenario.log" | steps "$lab" "$scenario"; then
      passed+=("$scenario") # what it leaves, others need not bring again
      say "$lab" "$scenario" "PASSED in $((SECONDS - began)) s"
    else
      touch "$work/failed"
      say "$lab" "$scenario" "FAILED after $((SECONDS - began)) s"
      mv "$work/$scenario.log" "$work/$scenario.failed"
    fi
  done
  firstlight lab down --name "$lab" 2>/dev/null
}

set -m # every worker is a process group of its own, to be ended with all that it started
work_off "${labs[0]}" first &
workers+=($!)
work_off "${labs[1]}" last &
workers+=($!)
set +m
status=0
for worker in "${workers[@]}"; do wait "$worker" || status=$?; done
workers=()

for log in "$work"/*.failed; do
  [[ -e $log ]] || continue
  status=1
  printf '\n--- %s: what Molecule said\n' "$(basename "$log" .failed)"
  cat "$log"
done
if ((status)) && [[ -s $work/queue ]]; then
  printf '\nNot tried, because something failed before: %s\n' "$(paste -sd' ' "$work/queue")"
fi
exit "$status"
