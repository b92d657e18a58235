#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs unmodified accelerate from PyPI beside a PyTorch in the user's cache folder, and prints
# its folder: programs find it by PYTHONPATH, and its command in the folder's bin.
#
# Usage: scripts/build/install_accelerate.sh PYTHON   (of install_torch.sh)
set -euo pipefail

python=${1:---help}
if [[ $python == -h || $python == --help ]]; then
  sed -n '3,6s/^# \{0,1\}//p' "$0"
  exit 0
fi
wanted=(accelerate==1.15.0 PyYAML==6.0.4 psutil==7.2.2 packaging==26.4 safetensors==0.8.0
  huggingface_hub==2.4.0 httpx2==2.16.2 httpcore2==2.16.2 anyio==4.16.0 click==8.5.1 h11==0.16.0
  idna==3.20 tqdm==4.70.1 truststore==0.10.5)
folder=$(dirname "$(dirname "$python")")/accelerate
if [[ "$(cat "$folder/complete" 2>/dev/null)" != "${wanted[*]}" ]]; then
  echo "install_accelerate: installing accelerate in $folder" >&2
  rm -rf "$folder"
  "$python" -m pip --quiet --no-cache-dir --disable-pip-version-check install --no-deps \
    --target "$folder" "${wanted[@]}" >&2
  echo "${wanted[*]}" >"$folder/complete"
fi
echo "$folder"
