#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Attacks nodes for long: 2,000 random signals among 20 processes, and 5,000 damages of live
# segments, with the dev build and with sanitizers. Needs root, for it acts as two users.
#
# Usage: scripts/check_security.sh [--signals N] [--damages N] [--seed N]
set -eu
cd "$(dirname "$0")/.."

for preset in dev asan; do
  cmake --preset "$preset" --log-level=WARNING
  program=
  if [ "$preset" = dev ]; then
    cmake --build --preset dev
    program=build/dev/tests/integration/gpemu_share_device
  else
    # The stand-ins are not loaded into programs with a sanitizer.
    cmake --build --preset asan --target gpemu gpemu_node_actor
  fi
  echo "== $preset"
  # shellcheck disable=SC2086
  python3 tests/security/security_test.py "build/$preset/tools/gpemu" \
    "build/$preset/tests/security/gpemu_node_actor" $program --signals 2000 --damages 5000 "$@"
done
