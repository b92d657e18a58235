#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs an unmodified CUDA build of PyTorch from PyPI into the user's cache folder, without
# NVIDIA's own packages, and prints the path of its Python.
#
# Usage: scripts/install_torch.sh [VERSION]     (default: the newest that gpemu is tested with)
#
# The wheels with their few pure-Python needs take about 2 GB each. Nothing is installed twice.
set -euo pipefail

# PyTorch with the torchvision and Triton that its release names; newest first.
declare -A torchvision=([2.15.0]=0.29.2 [2.8.0]=0.23.0)
declare -A triton=([2.15.0]=3.9.0 [2.8.0]=3.4.0)
version=${1:-2.15.0}
if [[ $version == -h || $version == --help ]]; then
  sed -n '3,9s/^# \{0,1\}//p' "$0"
  exit 0
fi
if [[ -z ${torchvision[$version]:-} ]]; then
  echo "install_torch: version $version is not known; known: ${!torchvision[*]}" >&2
  exit 2
fi

folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpemu/torch-$version
python=$folder/bin/python
if [[ ! -e $folder/complete ]]; then
  echo "install_torch: installing PyTorch $version in $folder" >&2
  rm -rf "$folder"
  mkdir -p "$(dirname "$folder")"
  python3 -m venv "$folder" || {
    echo "install_torch: python3 makes no virtual environment; on Debian:" \
      "apt-get install python3-venv" >&2
    exit 1
  }
  "$python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps \
    "torch==$version" "torchvision==${torchvision[$version]}" "triton==${triton[$version]}" \
    numpy==2.4.6 pillow==13.0.0 typing_extensions==4.16.0 sympy==1.14.0 mpmath==1.3.0 \
    networkx==3.6.1 jinja2==3.1.6 markupsafe==3.0.4 filelock==4.2.11 fsspec==2026.9.0 \
    setuptools==80.9.0
  touch "$folder/complete"
fi
echo "$python"
