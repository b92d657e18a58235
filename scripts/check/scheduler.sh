#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares gpemu's scheduler with kube-scheduler on 200 hollow nodes of a Kubernetes cluster on this
# machine, and kills its leader: builds gpemu-kubernetes and executes
# tests/cluster/scheduler_test.py. Needs root. The first time, it builds Kubernetes.
#
# Usage: scripts/check/scheduler.sh [unittest's options]
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,7s/^# \{0,1\}//p' "$0"
  exit 0
fi
scripts/build/setup.sh
cmake --preset release --log-level=WARNING
cmake --build --preset release --target gpemu-kubernetes
exec tests/cluster/scheduler_test.py --program build/release/tools/gpemu-kubernetes "$@"
