#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles examples/cuda/*.cu with NVIDIA's compiler, which install_nvcc.sh fetches into the user's
# cache, and prints the programs.
#
# Usage: scripts/build/build_samples.sh [--cuda VERSION] [--runtime shared|static] [FOLDER]
#        (default: CUDA 13.0, the shared runtime, build/samples)
#
# Programs with the shared runtime run under gpemu: `gpemu run -- build/samples/vector_add`. The
# static one is nvcc's own default; scripts/check/static_runtime.py shows what becomes of it.
# cublas_gemm needs cuBLAS, which only 13.0 brings.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/build/samples
version=13.0
runtime=shared
while (($#)); do
  case $1 in
    --cuda) version=${2:?--cuda needs a version} && shift ;;
    --runtime) runtime=${2:?--runtime needs shared or static} && shift ;;
    -h | --help)
      sed -n '3,11s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*)
      echo "build_samples: unknown option $1; see --help" >&2
      exit 2
      ;;
    *) out=$1 ;;
  esac
  shift
done

toolkit=$("$root/scripts/build/install_nvcc.sh" "$version")
mkdir -p "$out"
for source in "$root"/examples/cuda/*.cu; do
  name=$(basename "$source" .cu)
  libraries=()
  if [ "$name" = cublas_gemm ]; then
    [ -e "$toolkit/lib/libcublas.so" ] || continue
    libraries=(-lcublas -lcublasLt)
  fi
  # nvcc 11.8 knows GCC up to 11; these programs ask nothing of a newer one that it cannot do.
  "$toolkit/bin/nvcc" -O2 -std=c++17 -arch=sm_80 -allow-unsupported-compiler -cudart "$runtime" \
    -I "$root/examples/cuda" -L "$toolkit/lib" "$source" -o "$out/$name" "${libraries[@]}"
  echo "$out/$name"
done
