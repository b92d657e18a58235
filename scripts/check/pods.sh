#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs unmodified CUDA programs in the pods of a Kubernetes cluster on this machine: builds gpemu as
# packages have it, which pods see, the device plugin and others, installs PyTorch, and executes
# tests/cluster/pods_test.py, dra_test.py and replay_test.py. Needs root. The first time, it builds
# for half an hour.
#
# Usage: scripts/check/pods.sh [options of unittest for pods_test.py, which then is all]
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,8s/^# \{0,1\}//p' "$0"
  exit 0
fi
scripts/build/setup.sh package
cmake --preset package --log-level=WARNING
cmake --build --preset package
cmake --install build/package --prefix "$PWD/build/pods" >/dev/null
cmake --preset release --log-level=WARNING
cmake --build --preset release --target gpemu-kubernetes gpemu-runtime gpemu_profiles
tests/cluster/pods_test.py --installation build/pods \
  --plugin build/release/tools/gpemu-kubernetes "$@"
if [[ $# -eq 0 ]]; then
  tests/cluster/dra_test.py --installation build/pods \
    --driver build/release/tools/gpemu-kubernetes
  tests/cluster/replay_test.py --installation build/pods \
    --program build/release/tools/gpemu-kubernetes
fi
