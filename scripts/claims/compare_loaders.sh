#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares gpemu's data loader with torchvision's and with libjpeg-turbo alone; see
# docs/how-to/loader-comparison.md. Arguments go to compare_loaders.py.
#
# torchvision comes from PyPI, into a virtual environment in the user's cache folder. PyPI's only
# build of PyTorch for Linux on x86 is the one for CUDA, and it does not start without CUDA's
# libraries, so this takes 5.5 GB there. PYTHON names an interpreter that has torchvision already.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpemu/compare_loaders
packages=(torch==2.15.0 torchvision==0.29.2 pillow==13.0.0 numpy==2.4.6)

if [[ -z ${PYTHON:-} ]]; then
  PYTHON=$cache/venv/bin/python
  # The last file of an installation, so that an incomplete one is made again.
  complete=$cache/venv/${packages[*]// /_}.complete
  if [[ ! -e $complete ]]; then
    echo "compare_loaders: installing ${packages[*]} in $cache/venv (5.5 GB)" >&2
    rm -rf "$cache/venv"
    mkdir -p "$cache"
    python3 -m venv "$cache/venv" || {
      echo "compare_loaders: python3 makes no virtual environment; on Debian:" \
        "apt-get install python3-venv" >&2
      exit 1
    }
    "$PYTHON" -m pip install --quiet --no-cache-dir --disable-pip-version-check "${packages[@]}"
    touch "$complete"
  fi
fi

if [[ -z ${GPEMU:-} ]]; then
  "$root/scripts/build/setup.sh"
  cd "$root"
  cmake --preset release --log-level=WARNING
  cmake --build build/release --target gpemu >&2
  GPEMU=$root/build/release/tools/gpemu
fi
exec "$PYTHON" "$root/scripts/claims/compare_loaders.py" --gpemu "$GPEMU" --cache "$cache" "$@"
