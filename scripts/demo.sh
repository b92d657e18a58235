#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains ResNet-18 on an emulated V100 over JPEG files that it makes, and shows where the time goes.
set -euo pipefail
cd "$(dirname "$0")/.."
images=2000
demo=build/demo
gpemu=build/release/tools/gpemu

# Pinned batches take more locked memory than the usual limit for users, 8 MiB.
pinned_memory_bytes=$((1 << 30))

can_lock_memory() {
  local limit capabilities
  limit=$(ulimit -l)
  capabilities=$(awk '/^CapEff/ {print $2}' /proc/self/status)
  [[ "$limit" == unlimited ]] || ((limit * 1024 >= pinned_memory_bytes)) ||
    (((0x$capabilities >> 14) & 1)) # CAP_IPC_LOCK is not bound by the limit.
}

raise_memory_lock_limit() {
  local as_root=()
  ((EUID == 0)) || as_root=(sudo -n)
  "${as_root[@]}" prlimit --pid $$ --memlock=unlimited:unlimited 2>/dev/null
}

scripts/setup.sh
cmake --preset release --log-level=WARNING
cmake --build build/release --target gpemu gpemu_profiles shims/all

mkdir -p "$demo"
if [[ ! -d "$demo/data" ]]; then
  "$gpemu" data make "$demo/data" --images "$images"
fi

common=(--gpu V100-PCIE-32GB --model resnet18 --batch 128 --data "$demo/data")
if ! can_lock_memory && ! { raise_memory_lock_limit && can_lock_memory; }; then
  echo "demo: locked memory is limited to $(ulimit -l) KiB, so batches are not pinned and copies" \
    "are slower; 'sudo prlimit --pid \$\$ --memlock=unlimited' raises the limit of a shell"
  common+=(--no-pin-memory)
fi

echo
"$gpemu" train "${common[@]}" --epochs 2 --json "$demo/train.json" \
  --trace "$demo/train.trace.json" --report "$demo/train.html"
echo
"$gpemu" analyze "${common[@]}" --json "$demo/analyze.json" --report "$demo/analyze.html"

cat <<END

The same run as files:
  $demo/train.html         the table and plots, one page
  $demo/train.trace.json   the timeline: open it at https://ui.perfetto.dev
  $demo/train.json         the figures
  $demo/analyze.html       which stalls storage and preprocessing cause
END
