#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs NVIDIA's compiler nvcc with CUDA's runtime into the user's cache folder, and prints the
# folder of this toolkit, which has bin/nvcc, include and lib.
#
# Usage: scripts/build/install_nvcc.sh [VERSION]   (11.8, 12.4, 12.9 or 13.0; default 13.0)
#
# 13.0 comes from PyPI; it has cuBLAS, too. PyPI has no nvcc before 13: 11.8 and 12.4 are unpacked
# from Debian's non-free packages, without installing them. 12.9 is the nvcc of 12.4 with the
# libraries of CUDA 12.9's runtime, from PyPI. Each takes 0.1 to 0.6 GB; Debian's packages are
# 0.9 and 1.0 GB to download.
set -euo pipefail

version=${1:-13.0}
case $version in
  11.8 | 12.4 | 12.9 | 13.0) ;;
  -h | --help)
    sed -n '3,12s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *)
    echo "install_nvcc: version $version is not known; known: 11.8 12.4 12.9 13.0" >&2
    exit 2
    ;;
esac

script=$(realpath "$0")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpemu/nvcc-$version
toolkit=$cache
[ "$version" != 13.0 ] || toolkit=$cache/nvidia/cu13

fetch_from_pypi() { # FOLDER PACKAGE...
  if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "install_nvcc: python3 has no pip; on Debian: apt-get install python3-pip" >&2
    exit 1
  fi
  python3 -m pip install --quiet --no-deps --upgrade --target "$@"
}

# The linker looks for the names without a version.
name_library() { # LIBRARY MAJOR
  ln -sf "lib$1.so.$2" "$toolkit/lib/lib$1.so"
}

install_from_pypi() {
  fetch_from_pypi "$cache" nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* \
    nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.* nvidia-cublas==13.0.*
  for library in cudart cublas cublasLt; do
    name_library "$library" 13
  done
}

# Unpacks paths below /usr of a Debian package into the toolkit's folder.
unpack() { # PACKAGE PATH... -- HOW MANY FOLDERS TO LEAVE OUT, TARGET
  local package=$1 paths=()
  shift
  while [ "$1" != -- ]; do
    paths+=("./usr/$1")
    shift
  done
  mkdir -p "$toolkit/$3"
  dpkg-deb --fsys-tarfile "$downloads/$package"_*.deb |
    tar -x -C "$toolkit/$3" --strip-components="$2" --wildcards "${paths[@]}"
}

install_from_debian() { # RELEASE LIBRARY
  downloads=$(mktemp -d "$cache/downloads.XXXXXX")
  trap 'rm -rf "$downloads"' EXIT
  mkdir -p "$downloads"/{lists,archives}/partial
  touch "$downloads/status"
  local archive
  archive=$(apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(REPO_URI)' \
    'Created-By: Packages' |
    awk '$1 == "Debian" && $2 !~ /-/ && !found {print $3; found = 1}') || true
  if [ -z "$archive" ]; then
    echo "install_nvcc: apt knows no archive of Debian; CUDA $version's nvcc comes from there:" \
      "run apt-get update on Debian, or take 13.0" >&2
    exit 1
  fi
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $1 non-free" \
    >"$downloads/sources.list"
  local apt=(apt-get -qq -o "Dir::Etc::SourceList=$downloads/sources.list"
    -o Dir::Etc::SourceParts=/dev/null -o "Dir::State=$downloads" -o "Dir::Cache=$downloads"
    -o "Dir::State::status=$downloads/status" -o APT::Sandbox::User=root -o Acquire::Retries=3
    -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
  "${apt[@]}" update >&2
  (cd "$downloads" && "${apt[@]}" download nvidia-cuda-toolkit nvidia-cuda-dev "$2" >&2)
  local libraries=lib/x86_64-linux-gnu
  unpack nvidia-cuda-toolkit bin/{cudafe++,fatbinary,nvlink,ptxas} -- 3 bin
  unpack nvidia-cuda-toolkit lib/nvidia-cuda-toolkit/bin/{cicc,nvcc,crt} -- 5 bin
  unpack nvidia-cuda-toolkit lib/nvidia-cuda-toolkit/libdevice -- 5 nvvm/libdevice
  unpack nvidia-cuda-dev 'include/*' -- 3 include
  unpack nvidia-cuda-dev "$libraries/libcud*.a" "$libraries/libculibos.a" -- 4 lib
  unpack "$2" "$libraries/libcudart.so.*" -- 4 lib
  name_library cudart "${2#libcudart}"
  cat >"$toolkit/bin/nvcc.profile" <<'PROFILE'
NVVMIR_LIBRARY_DIR = $(_HERE_)/../nvvm/libdevice
PATH += $(_HERE_):
INCLUDES += "-I$(_HERE_)/../include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(_HERE_)/../lib"
PROFILE
}

# The code of a device that links with libcudadevrt is linked by nvlink, which takes its own.
install_mixed() {
  local compiler runtime=$cache/runtime
  compiler=$("$script" 12.4)
  fetch_from_pypi "$runtime" nvidia-cuda-runtime-cu12==12.9.*
  cp -a "$compiler"/{bin,include,lib,nvvm} "$cache"
  rm "$cache"/lib/libcudart*
  cp -a "$runtime"/nvidia/cuda_runtime/lib/libcudart* "$cache/lib"
  rm -r "$runtime"
  name_library cudart 12
}

if [ ! -e "$cache/complete" ]; then
  echo "install_nvcc: fetching CUDA $version's compiler into $cache" >&2
  mkdir -p "$cache"
  case $version in
    11.8) install_from_debian bookworm libcudart11.0 ;;
    12.4) install_from_debian trixie libcudart12 ;;
    12.9) install_mixed ;;
    13.0) install_from_pypi ;;
  esac
  touch "$cache/complete"
fi
echo "$toolkit"
