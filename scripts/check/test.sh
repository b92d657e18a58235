#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs every test. The unit tests run under the sanitizers only, because their failures
# say the most; the last lines are those of all other tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/build/setup.sh test
jobs=$(nproc)

# Runs in the background, because tests wait more than they compute, while the next preset is built.
run_unit_tests() {
  ctest --preset "$1" --parallel "$jobs" --no-label-summary >"build/$1/unit_tests.log" 2>&1
}
running=
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
finish_unit_tests() {
  [ -z "$running" ] && return
  wait "$pid" || {
    cat "build/$running/unit_tests.log"
    exit 1
  }
  echo "== unit tests under $running"
  grep 'tests passed' "build/$running/unit_tests.log"
}

# The linker of LLVM, which the sanitizers' presets use, links the tests in a quarter of the time.
# Without line numbers, these presets compile a sixth faster; reports still name the functions. To
# see lines, configure and build the preset by itself.
declare -A faster=(
  [asan]="-DCMAKE_CXX_FLAGS_SANITIZE=-O0"
  [tsan]="-DCMAKE_CXX_FLAGS_SANITIZE=-O0"
  [dev]="-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -B/usr/lib/llvm-19/bin")

configure() {
  cmake --preset "$1" --log-level=WARNING -DGPEMU_FILES_TOGETHER=100 "${faster[$1]}" "${@:2}"
}

# This build takes what the sanitizers' builds and tests leave of the processors.
configure dev -DGPEMU_UNIT_TESTS=OFF
nice -n 10 ninja -C build/dev >build/dev/build.log 2>&1 &
whole=$!

for preset in asan tsan; do
  echo "== build $preset"
  configure "$preset"
  cmake --build --preset "$preset"
  finish_unit_tests
  run_unit_tests "$preset" &
  pid=$! running=$preset
done
finish_unit_tests

echo "== build dev"
wait "$whole" || {
  cat build/dev/build.log
  exit 1
}

echo "== all other tests"
ctest --preset dev --parallel "$((jobs + 2))" --no-label-summary
