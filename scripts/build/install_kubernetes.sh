#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Kubernetes, etcd, containerd and the network plugins that a test cluster needs into the
# user's cache folder, and prints the path of the folder with the programs.
#
# Usage: scripts/build/install_kubernetes.sh
#
# All but Debian's runc are built from their public Go modules (install_go.sh). It takes 12 minutes
# of processor time and 5 GB while it builds; 0.5 GB stay. An interrupted build continues where it
# stopped.
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)

kubernetes=1.34.4
containerd=2.1.5
# Each line is a module, its version, and the packages of its programs.
modules="k8s.io/kubernetes v$kubernetes cmd/kubelet cmd/kube-apiserver cmd/kube-scheduler \
    cmd/kube-controller-manager cmd/kubectl
  go.etcd.io/etcd/server/v3 v3.6.5 .
  github.com/containerd/containerd/v2 v$containerd cmd/containerd cmd/containerd-shim-runc-v2 \
    cmd/ctr
  github.com/containernetworking/plugins v1.7.1 plugins/main/bridge plugins/main/loopback \
    plugins/ipam/host-local"

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  sed -n '3,11s/^# \{0,1\}//p' "$0"
  exit 0
fi

folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpemu/kubernetes-$kubernetes
wanted=$(xargs <<<"$modules")
if [[ "$(cat "$folder/complete" 2>/dev/null)" == "$wanted" ]]; then
  echo "$folder/bin"
  exit 0
fi

mkdir -p "$folder/bin" "$folder/build"
# Two runs at the same time would disturb each other.
exec 9>"$folder/lock"
flock 9
if [[ "$(cat "$folder/complete" 2>/dev/null)" == "$wanted" ]]; then
  echo "$folder/bin"
  exit 0
fi

go=$("$scripts/install_go.sh")

# The caches are in the folder, so that all of it can be removed at the end.
export GOCACHE=$folder/build/cache GOMODCACHE=$folder/build/modules GOTOOLCHAIN=local CGO_ENABLED=0
export GOFLAGS="-mod=mod -modcacherw -trimpath -buildvcs=false"
cd "$folder/build"
version=k8s.io/component-base/version
minor=${kubernetes#1.}
names="-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=1
  -X $version.gitMinor=${minor%.*}
  -X github.com/containerd/containerd/v2/version.Version=$containerd"

# The versions of all other modules are those that a module itself is built with.
while read -r module version packages; do
  echo "install_kubernetes: building $module $version" >&2
  mkdir -p "${module//\//_}"
  cd "${module//\//_}"
  printf 'module gpemu.test/programs\n\ngo 1.24.0\n\nrequire %s %s\n' \
    "$module" "$version" >go.mod
  if [[ "$module" == k8s.io/kubernetes ]]; then
    # It names parts of itself by paths in its repository. They are modules, too.
    "$go" mod download -json "$module@$version" | sed -nE 's/.*"GoMod": "(.*)",/\1/p' |
      xargs sed -nE \
        "s/^.*(k8s.io\/[a-z-]+) => .\/staging.*/replace \1 => \1 v0.${kubernetes#1.}/p" >>go.mod
  fi
  for package in $packages; do
    name=$(basename "$package")
    if [[ "$package" == . ]]; then
      nice "$go" build -o "$folder/bin/etcd" -ldflags "$names" "$module"
    else
      nice "$go" build -o "$folder/bin/$(basename "$package")" -ldflags "$names" "$module/$package"
    fi
  done
  cd ..
done <<<"$modules"

# runc needs a C library for its filters of system calls. Debian's package has it.
(
  rm -rf runc
  mkdir runc
  cd runc
  apt-get -qq -o APT::Sandbox::User=root -o Acquire::Retries=3 download runc
  dpkg-deb --extract runc_*.deb .
  install usr/sbin/runc "$folder/bin/runc"
)

echo "$wanted" >"$folder/complete"
rm -rf "$folder/build"
echo "$folder/bin"
