#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gives the tasks of a real Slurm cluster on this machine emulated GPUs: installs Debian's Slurm,
# builds gpemu and executes tests/cluster/slurm_test.py, and without options also
# slurm_sweep_test.py and slurm_replay_test.py. Needs root. Nothing stays but packages.
#
# Usage: scripts/check/slurm.sh [--torch] [--times N] [--seed N] [unittest's options]
#
# --torch: also run PyTorch's ranks on two nodes with a slow link between them; installs PyTorch
#   and accelerate.
# --times: how many jobs end at random moments, by scancel, scontrol requeue or kills (default: 3).
# Without unittest's options, launchers_test.py starts ranks on two nodes, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,13s/^# \{0,1\}//p' "$0"
  exit 0
fi
scripts/build/setup.sh slurm
cmake --preset dev --log-level=WARNING
cmake --build --preset dev
nvml=$(scripts/build/install_slurm_nvml.sh) || {
  echo "slurm: Slurm's plug-in for NVML cannot be had; its test is skipped" >&2
  nvml=
}
torch=() accelerate=()
if [[ ${1:-} == --torch ]]; then
  shift
  torch=(--torch "$(scripts/build/install_torch.sh 2.8.0)")
  accelerate=(--accelerate "$(scripts/build/install_accelerate.sh "${torch[1]}")")
fi
tests/cluster/slurm_test.py --build build/dev --nvml "$nvml" "${torch[@]}" "$@"
if [[ $# -eq 0 ]]; then
  tests/cluster/launchers_test.py --build build/dev "${torch[@]}" "${accelerate[@]}"
  tests/cluster/slurm_sweep_test.py --build build/dev
  tests/cluster/slurm_replay_test.py --build build/dev
fi
