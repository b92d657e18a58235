#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages for building on Debian 12; with "test", also those for the sanitizers, with
# "lint" those and those for linting and fuzzing, with "package" those for making packages, with
# "pages" those for scripts/check/check_pages.py, with "slurm" those for scripts/check/slurm.sh.
# Prints nothing if all are installed.
set -euo pipefail

packages=(g++ cmake ninja-build git python3 pkg-config libfmt-dev libcli11-dev libsqlite3-dev
  libtomlplusplus-dev nlohmann-json3-dev libjpeg-dev libpng-dev zlib1g-dev liblemon-dev
  coinor-libclp-dev liburing-dev libceres-dev libcurl4-openssl-dev libgrpc++-dev
  protobuf-compiler-grpc libprotobuf-dev libyaml-cpp-dev prometheus-cpp-dev libcpp-httplib-dev
  libssl-dev libbrotli-dev libslurm-dev libgtest-dev libbenchmark-dev python3-venv
  python3-jsonschema)
[[ "${1:-}" == package ]] && packages+=(debootstrap dpkg-dev libblas-dev)
[[ "${1:-}" == @(test|lint) ]] && packages+=(clang-19 libclang-rt-19-dev lld-19)
[[ "${1:-}" == lint ]] && packages+=(clang-format-19 clang-tidy-19)
[[ "${1:-}" == pages ]] && packages+=(chromium chromium-driver python3-selenium fonts-liberation)
[[ "${1:-}" == slurm ]] && packages+=(slurm-wlm munge iproute2 libpmix2 openmpi-bin python3-mpi4py)

if ! command -v apt-get >/dev/null; then
  echo "setup: no Debian system; install what these packages of Debian 12 are called here:" \
    "${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$status" == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: neither root nor sudo; ask an administrator for: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get -qq -o Acquire::Retries=3 update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 \
  -o Dpkg::Use-Pty=0 install --no-install-recommends -y "${missing[@]}" >/dev/null
