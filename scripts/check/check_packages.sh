#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel and the Debian packages, installs each into a bare Debian 12 that has no compiler
# and no network, and trains, runs a CUDA program and watches a node there, as root and as an
# ordinary user. Needs root. Takes some minutes; the bare Debian is kept in the user's cache folder.
#
# Usage: scripts/check/check_packages.sh [FOLDER]     (the packages; default: build/packages)
set -euo pipefail
packages=${1:+$(realpath -m -- "$1")}
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,7s/^# \{0,1\}//p' "$0"
  exit 0
fi
if ((EUID != 0)); then
  echo "check_packages: only root may make a bare Debian and enter it; run it as root" >&2
  exit 1
fi
packages=${packages:-$PWD/build/packages}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpemu
bare=$cache/bare-debian-12.tar
scripts/build/setup.sh package
# Only gpemu's packages: the folder may contain others.
rm -f "$packages"/gpemu-*.whl "$packages"/gpemu_*.deb "$packages"/libgpemu-dev_*.deb
scripts/build/build_wheel.sh "$packages"
scripts/build/build_deb.sh "$packages"
made=("$packages"/gpemu-*.whl "$packages"/gpemu_*.deb "$packages"/libgpemu-dev_*.deb)
for file in "${made[@]}"; do
  if ! grep -qF "$(basename "$file")" docs/how-to/install.md; then
    echo "check_packages: docs/how-to/install.md does not name $(basename "$file"): does it" \
      "need a newer system than before?" >&2
    exit 1
  fi
done

work=$(mktemp -d /tmp/gpemu_bare.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [[ ! -f $bare ]]; then
  echo "check_packages: downloading a bare Debian 12 to $bare"
  mkdir -p "$cache"
  debootstrap --variant=minbase --include=python3,python3-pip,python3-venv \
    bookworm "$work/bare" http://deb.debian.org/debian >"$work/log" || {
    cat "$work/log" >&2
    exit 1
  }
  rm -f "$work"/bare/var/cache/apt/archives/*.deb
  tar -C "$work/bare" --one-file-system -cf "$work/bare.tar" .
  # In two steps, because a move from another file system copies, and an incomplete copy must not
  # count.
  mv "$work/bare.tar" "$bare.new"
  mv "$bare.new" "$bare"
  rm -rf --one-file-system "$work/bare"
fi

# The namespaces remove all mounts and processes of the bare system.
enter() {
  unshare --mount --pid --net --fork --kill-child -- bash -ec '
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/dev/shm"
    mount -t proc proc "$1/proc"
    exec chroot "$1" env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root \
      LC_ALL=C.UTF-8 bash -e /check/packages_check.sh "$2"' enter "$1" "$2"
}

for kind in wheel deb; do
  root=$work/$kind
  mkdir -p "$root"
  tar -C "$root" -xf "$bare"
  mkdir -p "$root/check/recordings"
  cp evidence/packs/gpemu-vldb25/operations/alexnet.json "$root/check/recordings"
  cp "${made[@]}" tests/python/*_test.py tests/packages/* "$root/check"
  echo "check_packages: the $kind in a bare Debian 12"
  enter "$root" "$kind"
  rm -rf --one-file-system "$root"
done

echo "check_packages: a program that uses the libraries of libgpemu-dev"
for package in "${made[@]:1}"; do dpkg-deb -x "$package" "$work/files"; done
cmake -S tests/consumer/cpp -B "$work/client" -DCMAKE_PREFIX_PATH="$work/files/usr" \
  -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/client" >/dev/null
GPEMU_PROFILES=$work/files/usr/share/gpemu/profiles.db "$work/client/client" >/dev/null
echo "check_packages: ok"
ls -l "${made[@]}"
