#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs an unmodified CUDA build of PyTorch from PyPI into the user's cache folder, and prints
# the path of its Python.
#
# Usage: scripts/build/install_torch.sh [VERSION]   (default: the newest that gpemu is tested with)
#
# Of NVIDIA's packages, only the run-time compiler NVRTC is installed: PyTorch compiles some
# operators with it, and it needs no GPU. torch.compile also needs a C compiler on the machine.
#
# It downloads about 1.2 GB, and 2.5 GB stay. A broken download resumes where it stopped; an
# interrupted run continues with the same package. Nothing is installed twice.
set -euo pipefail

# The dependencies of each release of PyTorch; newest first.
declare -A packages=(
  [2.15.0]="torchvision==0.29.2 triton==3.9.0 nvidia-cuda-nvrtc==13.2.86"
  [2.11.0]="torchvision==0.26.0 triton==3.6.0 nvidia-cuda-nvrtc==13.0.88"
  [2.8.0]="torchvision==0.23.0 triton==3.4.0 nvidia-cuda-nvrtc-cu12==12.8.93"
  [2.5.1]="torchvision==0.20.1 triton==3.1.0 nvidia-cuda-nvrtc-cu12==12.4.127"
)
common="numpy==2.4.6 pillow==13.0.0 typing_extensions==4.16.0 sympy==1.14.0 mpmath==1.3.0
  networkx==3.6.1 jinja2==3.1.6 markupsafe==3.0.4 filelock==4.2.11 fsspec==2026.9.0
  setuptools==80.9.0"
# This is the first version of pip that resumes broken downloads.
pip="pip>=25.1"

version=${1:-2.15.0}
if [[ $version == -h || $version == --help ]]; then
  sed -n '3,12s/^# \{0,1\}//p' "$0"
  exit 0
fi
if [[ -z ${packages[$version]:-} ]]; then
  echo "install_torch: version $version is not known; known: ${!packages[*]}" >&2
  exit 2
fi
read -r -d '' -a wanted <<<"torch==$version ${packages[$version]} $common" || true

folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpemu/torch-$version
python=$folder/bin/python
wheels=$folder/wheels
if [[ "$(cat "$folder/complete" 2>/dev/null)" != "${wanted[*]}" ]]; then
  echo "install_torch: installing PyTorch $version in $folder" >&2
  mkdir -p "$(dirname "$folder")"
  # An incomplete environment has no pip.
  if ! "$python" -m pip --version &>/dev/null && ! python3 -m venv --clear "$folder" >&2; then
    echo "install_torch: python3 makes no virtual environment; on Debian:" \
      "apt-get install python3-venv" >&2
    exit 1
  fi
  run_pip=("$python" -m pip --quiet --no-cache-dir --disable-pip-version-check)
  "${run_pip[@]}" install --upgrade "$pip"
  installed=$("$python" -m pip freeze --all)
  for package in "${wanted[@]}"; do
    grep -qix "$package" <<<"$installed" && continue
    echo "install_torch: downloading $package" >&2
    "${run_pip[@]}" download --no-deps --resume-retries 20 --dest "$wheels" "$package"
  done
  "${run_pip[@]}" install --no-deps --find-links "$wheels" "${wanted[@]}"
  rm -rf "$wheels"
  echo "${wanted[*]}" >"$folder/complete"
fi
echo "$python"
