#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs every test. The unit tests run under the sanitizers first, because their failures
# say the most; the last lines are those of the whole suite.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/build/setup.sh
jobs=$(nproc)

for preset in asan tsan; do
  echo "== unit tests under $preset"
  cmake --preset "$preset" --log-level=WARNING
  cmake --build --preset "$preset"
  log=build/$preset/unit_tests.log
  ctest --preset "$preset" --parallel "$jobs" --no-label-summary >"$log" 2>&1 || {
    cat "$log"
    exit 1
  }
  grep 'tests passed' "$log"
done

echo "== all tests"
cmake --preset dev --log-level=WARNING
cmake --build --preset dev
ctest --preset dev --parallel "$jobs" --no-label-summary
