#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python package's wheel into FOLDER: one for every Python version and every x86-64 Linux
# whose C library is not older than the wheel's name says (manylinux). Installing it needs no
# compiler. The first build takes some minutes; build/wheel keeps what the next one needs.
#
# Usage: scripts/build/build_wheel.sh [FOLDER]     (default: build/packages)
set -euo pipefail
folder=${1:+$(realpath -m -- "$1")}
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,7s/^# \{0,1\}//p' "$0"
  exit 0
fi
folder=${folder:-build/packages}
scripts/build/setup.sh
mkdir -p "$folder"
folder=$(realpath "$folder")
tools=build/wheel_tools
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# An incomplete environment has no pip.
"$tools/bin/python" -m pip --version &>/dev/null || python3 -m venv --clear "$tools"
pip=("$tools/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install auditwheel==6.8.2 wheel==0.48.0
# The compiler that CMake would choose, not the one with which Python was built.
CC=${CC:-/usr/bin/cc} CXX=${CXX:-/usr/bin/c++} "${pip[@]}" wheel --no-deps \
  --config-settings build-dir=build/wheel --wheel-dir "$raw" .

# auditwheel finds the oldest systems that have everything that the wheel needs. It would also copy
# libraries into the wheel under other names, but there are none to copy.
tag=$("$tools/bin/auditwheel" show --json "$raw"/gpemu-*.whl 2>/dev/null |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["overall_tag"])')
if [[ $tag != manylinux_* ]]; then
  echo "build_wheel: the wheel needs libraries that no system promises:" >&2
  "$tools/bin/auditwheel" show "$raw"/gpemu-*.whl >&2
  exit 1
fi
"$tools/bin/python" -m wheel tags --remove --platform-tag "$tag" "$raw"/gpemu-*.whl >/dev/null
cp "$raw"/gpemu-*.whl "$folder"
ls "$folder"/gpemu-*.whl
