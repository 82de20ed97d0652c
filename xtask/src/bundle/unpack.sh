#!/usr/bin/env bash
# Unpacks the bundle to a folder (its own, if none is named), where its programs and `run-tests.sh` then lie.
#   ./unpack.sh [FOLDER]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
to=${1:-$here}
mkdir -p "$to"
if command -v xz >/dev/null; then
  tar --extract --xz --file "$here/phalanx.tar.xz" --directory "$to"
else
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
    "$here/phalanx.tar.xz" "$to"
fi
