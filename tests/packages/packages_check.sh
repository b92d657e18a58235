# SPDX-License-Identifier: Apache-2.0
# Runs in a bare Debian: installs one package from /check and uses what it brings.
#
# Usage: packages_check.sh wheel|deb
kind=$1
failed() {
  echo "packages_check: $*" >&2
  exit 1
}

for tool in cc gcc g++ clang make cmake ld; do
  ! command -v "$tool" >/dev/null || failed "the bare Debian has $tool"
done

case $kind in
  wheel)
    python3 -m venv /venv
    /venv/bin/pip install --quiet --no-index /check/gpemu-*.whl
    gpemu=/venv/bin/gpemu
    ;;
  deb)
    dpkg --install /check/gpemu_*.deb >/dev/null
    gpemu=/usr/bin/gpemu
    ;;
esac

share=/usr/share/gpemu
[[ $kind == deb ]] || share=$(echo /venv/lib/python3*/site-packages/gpemu/share/gpemu)
[[ -f $share/schemas/run.json ]] || failed "there are no schemas in $share"

# All that was installed needs the C library and the compiler's runtime library, no more.
folders=(/usr/lib/gpemu /usr/lib/libgpemu.so.* /usr/bin/gpemu)
[[ $kind == deb ]] || folders=(/venv/lib/python3*/site-packages/gpemu)
mapfile -t installed < <(find "${folders[@]}" -type f \( -name 'lib*.so.*' -o -name gpemu \))
((${#installed[@]} > 25)) || failed "only ${#installed[@]} libraries were installed"
for file in "${installed[@]}"; do
  missing=$(ldd "$file" 2>/dev/null | grep 'not found' || true)
  [[ -z $missing ]] || failed "$file needs what is not there: $missing"
done

use() { # as whom
  echo "packages_check: $kind as $(id -un): train, run, node, smi, cost"
  cd "$(mktemp -d)"
  "$gpemu" train synthetic --gpu V100-PCIE-32GB --model resnet18 --batch 128 --steps 20 >train.txt
  grep -q '^throughput  *9[0-9][0-9]\.' train.txt || failed "$(cat train.txt)"
  "$gpemu" data make photos --images 40 --classes 2 >/dev/null
  "$gpemu" train files photos --gpu V100-PCIE-32GB --model resnet18 --batch 8 --no-pin-memory \
    >photos.txt
  grep -q '^run  *5 steps, 40 images' photos.txt || failed "$(cat photos.txt)"
  "$gpemu" run --gpu V100-PCIE-32GB -- python3 /check/program.py 2>summary.txt ||
    failed "$(cat summary.txt)"
  grep -q 'V100-PCIE-32GB' summary.txt || failed "$(cat summary.txt)"
  "$gpemu" node create "bare-$EUID" --gpu A100-PCIE-40GB:2 >/dev/null
  "$gpemu" smi -L "bare-$EUID" >smi.txt
  [[ $(grep -c A100 smi.txt) == 2 ]] || failed "$(cat smi.txt)"
  "$gpemu" node remove "bare-$EUID" >/dev/null
  "$gpemu" cost --gpu V100-PCIE-32GB --model resnet50 --batch 64 >/dev/null
  local code=0
  "$gpemu" cost fit /check/recordings 2>fit.txt || code=$?
  [[ $code == 10 ]] && grep -q 'without the Ceres solver' fit.txt || failed "$code: $(cat fit.txt)"
}

use
chmod -R a+rX /check
useradd --create-home user
export kind gpemu
home=$(getent passwd user | cut -d: -f6)
setpriv --reuid user --regid user --clear-groups env HOME="$home" bash -ec \
  "$(declare -f failed use); use"

if [[ $kind == wheel ]]; then
  for test in /check/*_test.py; do
    echo "packages_check: $(basename "$test")"
    /venv/bin/python -I "$test" >test.txt 2>&1 || failed "$(cat test.txt)"
  done
  /venv/bin/pip uninstall --quiet --yes gpemu
else
  dpkg --remove gpemu >/dev/null
fi
[[ ! -e $gpemu ]] || failed "removing the package left $gpemu"
