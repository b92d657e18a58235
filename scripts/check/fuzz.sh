#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target for a while. New inputs are kept in build/fuzz/corpus, crashes in
# build/fuzz/crashes; a crash's input belongs in tests/fuzz/corpus together with its fix.
#
# Usage: scripts/check/fuzz.sh [SECONDS [TARGET...]]     (default: 60, every target)
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,6s/^# \{0,1\}//p' "$0"
  exit 0
fi
seconds=${1:-60}
shift || true
if [[ ! $seconds =~ ^[0-9]+$ ]]; then
  echo "fuzz: '$seconds' is not a number of seconds; see scripts/check/fuzz.sh --help" >&2
  exit 2
fi
targets=("$@")
if ((${#targets[@]} == 0)); then
  for source in tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$source" _fuzz.cpp)"); done
fi
for target in "${targets[@]}"; do
  [[ -f tests/fuzz/${target}_fuzz.cpp ]] && continue
  echo "fuzz: there is no tests/fuzz/${target}_fuzz.cpp" >&2
  exit 2
done

scripts/build/setup.sh lint
cmake --preset fuzz --log-level=WARNING
cmake --build build/fuzz --target "${targets[@]/%/_fuzz}"

mkdir -p build/fuzz/crashes
for target in "${targets[@]}"; do
  found=build/fuzz/corpus/$target
  mkdir -p "$found"
  options=("-max_total_time=$seconds" -timeout=10 -print_final_stats=1
    "-artifact_prefix=build/fuzz/crashes/$target-")
  [[ -f tests/fuzz/$target.dict ]] && options+=("-dict=tests/fuzz/$target.dict")
  echo "== $target for $seconds s"
  if ! "build/fuzz/tests/fuzz/${target}_fuzz" "${options[@]}" "$found" \
    "tests/fuzz/corpus/$target" >"build/fuzz/$target.log" 2>&1; then
    tail -n 40 "build/fuzz/$target.log"
    echo "fuzz: $target failed; its input is in build/fuzz/crashes" >&2
    exit 1
  fi
  grep -E 'number_of_executed_units|peak_rss_mb' "build/fuzz/$target.log"
done
