#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles examples/cuda/*.cu with NVIDIA's compiler, which it fetches from PyPI into the user's
# cache.
#
# Usage: scripts/build/build_samples.sh [<folder for the programs, default build/samples>]
#
# The programs link the shared runtime, so that `gpemu run -- build/samples/vector_add` runs them.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$root/build/samples}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpemu/nvcc-13.0
toolkit=$cache/nvidia/cu13
packages=(nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.*
          nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.* nvidia-cublas==13.0.*)

if [ ! -e "$cache/complete" ]; then
  if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "build_samples: python3 has no pip; on Debian: apt-get install python3-pip" >&2
    exit 1
  fi
  echo "build_samples: fetching the compiler into $cache (about 600 MB)" >&2
  mkdir -p "$cache"
  python3 -m pip install --quiet --no-deps --upgrade --target "$cache" "${packages[@]}"
  for library in cudart cublas cublasLt; do # The linker looks for the names without a version.
    ln -sf "lib$library.so.13" "$toolkit/lib/lib$library.so"
  done
  touch "$cache/complete"
fi

mkdir -p "$out"
for source in "$root"/examples/cuda/*.cu; do
  name=$(basename "$source" .cu)
  libraries=()
  if [ "$name" = cublas_gemm ]; then
    libraries=(-lcublas -lcublasLt)
  fi
  "$toolkit/bin/nvcc" -O2 -std=c++17 -arch=sm_80 -cudart shared -I "$root/examples/cuda" \
    -L "$toolkit/lib" "$source" -o "$out/$name" "${libraries[@]}"
  echo "$out/$name"
done
