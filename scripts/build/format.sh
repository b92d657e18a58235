#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats every C and C++ file of the repository; with --check, only lists the files that need it.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v clang-format-19 >/dev/null; then
  echo "clang-format-19 is not installed; make lint installs it" >&2
  exit 1
fi
mapfile -t files < <(git ls-files -co --exclude-standard -- '*.cpp' '*.hpp' '*.h' '*.c')
unformatted=0
for file in "${files[@]}"; do
  [[ -f "$file" ]] || continue
  if [[ "${1:-}" != --check ]]; then
    clang-format-19 -i "$file"
  elif ! clang-format-19 --dry-run --Werror "$file" 2>/dev/null; then
    echo "$file: not formatted; run scripts/build/format.sh"
    unformatted=1
  fi
done
exit "$unformatted"
