#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains ResNet-18 on an emulated V100 over JPEG files that it makes, and shows where the time goes.
set -euo pipefail
cd "$(dirname "$0")/../.."
images=2000
demo=build/demo
gpemu=build/release/tools/gpemu

scripts/build/setup.sh
cmake --preset release --log-level=WARNING
cmake --build build/release --target gpemu gpemu_profiles shims/all

mkdir -p "$demo"
if [[ ! -d "$demo/data" ]]; then
  "$gpemu" data make "$demo/data" --images "$images"
fi

common=(--gpu V100-PCIE-32GB --model resnet18 --batch 128)

echo
"$gpemu" train files "$demo/data" "${common[@]}" --epochs 2 --json "$demo/train.json" \
  --trace "$demo/train.trace.json" --report "$demo/train.html"
echo
"$gpemu" analyze files "$demo/data" "${common[@]}" --json "$demo/analyze.json" \
  --report "$demo/analyze.html"

cat <<END

The same run as files:
  $demo/train.html         the table and plots, one page
  $demo/train.trace.json   the timeline: open it at https://ui.perfetto.dev
  $demo/train.json         the figures
  $demo/analyze.html       which stalls storage and preprocessing cause
END
