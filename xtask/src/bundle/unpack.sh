#!/usr/bin/env bash
# Unpacks the bundle to a folder (its own, if none is named), where its programs and `run-tests.sh` then lie.
#   ./unpack.sh [FOLDER]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
to=${1:-$here}
mkdir -p "$to"
tar --extract --gzip --file "$here/phalanx.tar.gz" --directory "$to"
