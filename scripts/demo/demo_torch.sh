#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs an unmodified CUDA wheel of PyTorch into the user's cache and trains ResNet-50 with it on
# an emulated GPU: DataLoader workers, pinned memory, mixed precision, checkpoint.
#
# Usage: scripts/demo/demo_torch.sh [VERSION] [GPU]     (2.15.0 on A100-PCIE-40GB; also 2.8.0)
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,6s/^# \{0,1\}//p' "$0"
  exit 0
fi
version=${1:-2.15.0}
gpu=${2:-A100-PCIE-40GB}
demo=build/demo
gpemu=build/release/tools/gpemu

scripts/build/setup.sh
cmake --preset release --log-level=WARNING
cmake --build build/release --target gpemu gpemu_profiles shims/all
python=$(scripts/build/install_torch.sh "$version")
mkdir -p "$demo"
if [[ ! -d $demo/torch_data ]]; then
  "$gpemu" data make "$demo/torch_data" --classes 4 --images 400
fi
"$gpemu" run --gpu "$gpu" -- "$python" examples/pytorch/train_resnet50.py \
  --data "$demo/torch_data" --amp --checkpoint "$demo/resnet50.pt"
