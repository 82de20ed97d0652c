#!/usr/bin/env bash
# Runs the tests of this bundle that need a GPU: in each binary, those with `cuda` in their name.
#   ./run-tests.sh [--sanitizer [TOOL..]] [FILTER]
# --sanitizer runs them under compute-sanitizer, once a tool (memcheck, racecheck and initcheck when none is
# named).
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
export PHALANX_BUNDLE="$here" PHALANX_REQUIRE_CUDA=1

tools=()
named=()
filter=cuda
while [ $# -gt 0 ]; do
  case $1 in
    --sanitizer) tools=(memcheck racecheck initcheck) ;;
    memcheck | racecheck | initcheck | synccheck) named+=("$1") ;;
    *) filter=$1 ;;
  esac
  shift
done
if [ ${#tools[@]} -gt 0 ] && [ ${#named[@]} -gt 0 ]; then tools=("${named[@]}"); fi
if [ ${#tools[@]} -gt 0 ] && ! command -v compute-sanitizer >/dev/null; then
  echo "no compute-sanitizer in PATH: it comes with the CUDA toolkit" >&2
  exit 2
fi

# The tests over a stand-in for the driver are for machines that have none. Calls of the driver that tests
# expect to fail are no findings.
flags=(--test-threads=1 --skip over_our_driver)
passed=0
failed=0
run() {
  local label=$1
  shift
  printf '== %s\n' "$label"
  if "$@"; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    printf 'FAILED %s\n' "$label"
  fi
}

for binary in "$here"/tests/*; do
  name=$(basename "$binary")
  # A binary without such tests has nothing to do here.
  if [ "$("$binary" "$filter" --list 2>/dev/null | grep -c ': test$')" -eq 0 ]; then continue; fi
  if [ ${#tools[@]} -eq 0 ]; then
    run "$name" "$binary" "$filter" "${flags[@]}"
  else
    for tool in "${tools[@]}"; do
      run "$name ($tool)" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 99 \
        "$binary" "$filter" "${flags[@]}"
    done
  fi
done

if [ $((passed + failed)) -eq 0 ]; then
  echo "no test has \"$filter\" in its name" >&2
  exit 2
fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
