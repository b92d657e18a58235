#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder of Slurm's plug-in for NVML (gpu_nvml.so), which Debian has in contrib: gets its
# package, without changing what apt knows, and unpacks it into the user's cache folder (0.1 MB).
#
# Usage: scripts/build/install_slurm_nvml.sh
set -euo pipefail
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,6s/^# \{0,1\}//p' "$0"
  exit 0
fi
version=$(dpkg-query -W -f='${Version}' slurmd)
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
folder=${GPEMU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpemu}/slurm-nvml-$version
plugins=$folder/usr/lib/$(uname -m)-linux-gnu/slurm-wlm
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [[ ! -e $plugins/gpu_nvml.so ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/lists/partial"
  keys=/usr/share/keyrings/debian-archive-keyring.gpg
  for source in "debian $release" "debian-security $release-security"; do
    echo "deb [signed-by=$keys] http://deb.debian.org/${source% *} ${source#* } contrib"
  done >"$work/sources.list"
  options=(-qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$work/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update >&2
  (cd "$work" && apt-get "${options[@]}" download slurm-wlm-nvml-plugin >&2)
  dpkg-deb -x "$work"/slurm-wlm-nvml-plugin_*.deb "$folder"
fi
echo "$plugins"
