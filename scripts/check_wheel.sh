#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python package's wheel from what git tracks, installs it alone into a fresh virtual
# environment, and runs the package's tests and the installed command there. Takes some minutes;
# everything is made in a temporary folder, and the wheel is kept when FOLDER is given.
#
# Usage: scripts/check_wheel.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,7s/^# \{0,1\}//p' "$0"
  exit 0
fi
scripts/setup.sh
tests=$PWD/tests/python
keep=
[[ $# -eq 0 ]] || { mkdir -p "$1" && keep=$(realpath "$1"); }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

git archive --prefix=source/ HEAD | tar -x -C "$work"
python3 -m venv "$work/venv"
pip=("$work/venv/bin/python" -m pip --quiet --disable-pip-version-check)
echo "check_wheel: building, in isolation, what is committed"
"${pip[@]}" wheel --no-deps --wheel-dir "$work/wheels" "$work/source"
wheel=$(echo "$work"/wheels/gpemu-*.whl)
echo "check_wheel: $(basename "$wheel"), $(stat -c %s "$wheel") bytes"
"${pip[@]}" install "$wheel"
rm -rf "$work/source" # What is tested needs nothing of it.

cd "$work"
for test in "$tests"/*_test.py; do
  echo "check_wheel: $(basename "$test")"
  venv/bin/python -I "$test"
done

cat >program.py <<'PROGRAM'
import ctypes

runtime = ctypes.CDLL("libcudart.so.12")
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
assert 31 << 30 < total.value < 32 << 30, total.value
pointer = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 30)) == 0
left = free.value
assert runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
assert left - free.value == 1 << 30, left - free.value
PROGRAM
echo "check_wheel: gpemu run, smi and cost"
venv/bin/gpemu run --quiet --gpu V100-PCIE-32GB -- venv/bin/python program.py
venv/bin/gpemu smi --help >smi.txt
venv/bin/gpemu cost --gpu V100-PCIE-32GB --model resnet50 --batch 64 >cost.txt
[[ -z $keep ]] || cp "$wheel" "$keep"
echo "check_wheel: ok"
