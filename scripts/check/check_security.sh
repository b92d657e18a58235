#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Attacks nodes for long: 2,000 random signals among 20 processes, and 5,000 damages of live
# segments, with the dev build and with sanitizers. Needs root, because it acts as two users.
#
# Usage: scripts/check/check_security.sh [--signals N] [--damages N] [--seed N]
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '4,7s/^# \{0,1\}//p' "$0"
  exit 0
fi
scripts/build/setup.sh test

cmake --preset dev --log-level=WARNING
cmake --build --preset dev --target gpemu shims/all gpemu_node_actor gpemu_share_device
cmake --preset asan --log-level=WARNING
cmake --build --preset asan --target gpemu gpemu_node_actor
# Shims with a sanitizer cannot be loaded into programs, so the sanitized gpemu starts programs with
# the others.
mixed=build/asan/with_dev_shims
mkdir -p "$mixed/tools"
ln -f build/asan/tools/gpemu "$mixed/tools/gpemu"
ln -sfn "$PWD/build/dev/shims" "$mixed/shims"
ln -sfn "$PWD/build/asan/share" "$mixed/share"

attack() { # GPEMU NODE_ACTOR [OPTIONS]
  python3 tests/security/security_test.py "$1" "$2" \
    build/dev/tests/integration/gpemu_share_device --signals 2000 --damages 5000 "${@:3}"
}
echo "== dev"
attack build/dev/tools/gpemu build/dev/tests/security/gpemu_node_actor "$@"
echo "== asan"
attack "$mixed/tools/gpemu" build/asan/tests/security/gpemu_node_actor "$@"
