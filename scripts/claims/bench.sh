#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the release preset, runs every benchmark and prints one table; the figures are also in
# build/bench.json.
#
# Usage: scripts/claims/bench.sh [NAME...]     (only executables with one of these in their name)
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/build/setup.sh
cmake --preset release --log-level=WARNING
cmake --build build/release --target gpemu_benches
scripts/claims/bench_table.py build/release build/bench.json "$@"
