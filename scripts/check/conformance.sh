#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the PyTorch conformance programs on both wheels that gpemu is tested with, on emulated GPUs,
# and writes docs/reference/pytorch-conformance.md; then those of public reports
# (tests/conformance/reports/) and those of nvcc. The first run downloads about 5 GB.
#
# Usage: scripts/check/conformance.sh [PROGRAM...]   e.g. memory.py; all without, and then the page
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,7s/^# \{0,1\}//p' "$0"
  exit 0
fi
# Version of PyTorch and GPU, which must be one that its kernels were compiled for.
runs=(2.15.0:A100-PCIE-40GB 2.8.0:A100-PCIE-40GB 2.8.0:V100-PCIE-32GB)
results=build/conformance

scripts/build/setup.sh
cmake --preset dev --log-level=WARNING
cmake --build --preset dev
mkdir -p "$results"
export OMP_NUM_THREADS=1 # The host's own arithmetic is small, and the machine may be too.

failed=0
files=()
for run in "${runs[@]}"; do
  version=${run%%:*}
  gpu=${run#*:}
  python=$(scripts/build/install_torch.sh "$version")
  files+=("$results/$version-$gpu.json")
  echo "== PyTorch $version on $gpu"
  build/dev/tools/gpemu run --quiet --gpu "$gpu:2" -- "$python" \
    tests/conformance/pytorch/run_all.py --json "${files[-1]}" "$@" \
    >"$results/$version-$gpu.log" 2>&1 || failed=1
  sed -n '/^program /,$p' "$results/$version-$gpu.log"
done
if (($# == 0)); then
  python3 tests/conformance/pytorch/report.py "${files[@]}" >"$results/page.md"
  mv "$results/page.md" docs/reference/pytorch-conformance.md
  echo "docs/reference/pytorch-conformance.md has the table; $results/ has what was printed"
  echo "== Public reports"
  tests/conformance/reports/run_reports.py --python "$(scripts/build/install_torch.sh 2.8.0)" \
    >"$results/reports.log" || failed=1
  grep -E '^FAILED |behave as reported$' "$results/reports.log"
  echo "== Programs of nvcc"
  scripts/check/static_runtime.py >"$results/static_runtime.log" 2>&1 || failed=1
  tail -1 "$results/static_runtime.log"
fi
exit "$failed"
