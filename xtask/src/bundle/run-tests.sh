#!/usr/bin/env bash
# Runs the tests of this bundle on a GPU: of the programs in `tests` those with `cuda` in their name, and of
# those in `tests/by-device`, which take the device that PHALANX_DEVICE names, all.
#   ./run-tests.sh [--jobs N] [--sanitizer [TOOL..]] [FILTER]
# --jobs runs N processes at a time.
# --sanitizer runs them under compute-sanitizer, once a tool (memcheck, racecheck, initcheck and synccheck
# when none is named).
# FILTER is a part of the names of tests, or of a program's.
# Each process runs a few tests. What it prints stays in a file of the folder PHALANX_LOGS, where
# `results.jsonl` has a line per process.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cd "$here" || exit
export PHALANX_BUNDLE="$here" PHALANX_REQUIRE_CUDA=1
# Drivers map files of tmpfs, and may not map those of the usual folder for temporary files.
if [ -d /dev/shm ]; then export TMPDIR=/dev/shm; fi
export logs=${PHALANX_LOGS:-$(mktemp -d)}
mkdir -p "$logs"

jobs=1
tools=(none)
named=()
filter=
while [ $# -gt 0 ]; do
  case $1 in
    --jobs) jobs=$2 && shift ;;
    --sanitizer) tools=(memcheck racecheck initcheck synccheck) ;;
    memcheck | racecheck | initcheck | synccheck) named+=("$1") ;;
    *) filter=$1 ;;
  esac
  shift
done
if [ "${tools[0]}" != none ] && [ ${#named[@]} -gt 0 ]; then tools=("${named[@]}"); fi
if [ "${tools[0]}" != none ] && ! command -v compute-sanitizer >/dev/null; then
  echo "no compute-sanitizer in PATH: it comes with the CUDA toolkit" >&2
  exit 2
fi

# Prints a line for each process: the tool, the program, and some of its tests.
plan() {
  local binary name tests per=6
  for binary in "$here"/tests/* "$here"/tests/by-device/*; do
    [ -f "$binary" ] || continue
    name=$(basename "$binary")
    tests=$("$binary" --list 2>/dev/null | sed -n 's/: test$//p')
    # The tests over a stand-in for the driver are for machines that have none, and planted faults are for the
    # emulator.
    tests=$(grep -v -e over_our_driver -e mutants:: <<<"$tests")
    case $binary in */by-device/*) ;; *) tests=$(grep cuda <<<"$tests") ;; esac
    case $name in *"$filter"*) ;; *) tests=$(grep -e "$filter" <<<"$tests") ;; esac
    [ -n "$tests" ] || continue
    for tool in "${tools[@]}"; do
      xargs -n "$per" <<<"$tests" | sed "s|^|$tool $binary |"
    done
  done
}

# Runs one process of the plan. Calls of the driver that tests expect to fail are no findings.
one() {
  local tool=$1 binary=$2 label log started code result
  shift 2
  label="$(basename "$binary") $tool"
  log=$(mktemp "$logs/$(basename "$binary")-$tool-XXXX.log")
  local sanitizer=()
  if [ "$tool" != none ]; then
    sanitizer=(compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 99)
  fi
  case $binary in */by-device/*) export PHALANX_DEVICE=cuda ;; esac
  started=$SECONDS
  "${sanitizer[@]}" "$binary" --exact "$@" --test-threads=1 >"$log" 2>&1
  code=$?
  result=passed
  if [ $code -ne 0 ]; then result=failed; fi
  # Racecheck counts a launch that it lost as a hazard, in tests that launch from several threads.
  if grep -q '^test result: ok' "$log" && grep -q 'SUMMARY: 1 hazard displayed (1 error' "$log" \
    && grep -q 'Internal Sanitizer Error: Detected a failure to track a kernel launch' "$log"; then
    result='the tool lost a launch; no hazard'
    code=0
  fi
  # The sanitizer fails on a program that does not call CUDA: tests of what the emulator alone can do.
  if grep -q 'terminated before first instrumented API call' "$log" && grep -q '^test result: ok' "$log"; then
    result='made no call of CUDA'
    code=0
  fi
  printf '{"program":"%s","tool":"%s","tests":"%s","result":"%s","code":%d,"seconds":%d}\n' \
    "$(basename "$binary")" "$tool" "$*" "$result" "$code" $((SECONDS - started)) >>"$logs/results.jsonl"
  printf '%s %s, %d s: %s\n' "$result" "$label" $((SECONDS - started)) "$*"
  if [ $code -ne 0 ]; then tail -n 40 "$log"; fi
}
export -f one

: >"$logs/results.jsonl"
# The lines are in random order, so that no program's tests run side by side only.
plan | shuf --random-source=/dev/zero | xargs -P "$jobs" -L 1 bash -c 'one "$@"' run-tests

total=$(wc -l <"$logs/results.jsonl")
failed=$(grep -c '"result":"failed"' "$logs/results.jsonl")
if [ "$total" -eq 0 ]; then
  echo "no test has \"$filter\" in its name" >&2
  exit 2
fi
printf '%d processes, %d failed; see %s\n' "$total" "$failed" "$logs"
[ "$failed" -eq 0 ]
