#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Debian packages into FOLDER: gpemu, which needs nothing but the C library, and libgpemu-dev
# for programs that use its libraries. The first build takes some minutes; build/package keeps what
# the next one needs.
#
# Usage: scripts/build/build_deb.sh [FOLDER]     (default: build/packages)
set -euo pipefail
folder=${1:+$(realpath -m -- "$1")}
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,7s/^# \{0,1\}//p' "$0"
  exit 0
fi
folder=${folder:-build/packages}
scripts/build/setup.sh package
cmake --preset package --log-level=WARNING
cmake --build --preset package
mkdir -p "$folder"
rm -rf build/package/cpack # which may hold those of another version
cpack --config build/package/CPackConfig.cmake -B build/package/cpack >/dev/null
cp build/package/cpack/*.deb "$folder"
ls "$folder"/gpemu_*.deb "$folder"/libgpemu-dev_*.deb
