#!/usr/bin/env bash
# Builds the package fangorn of this checkout, and tests it beside the libraries whose models it reads, which it installs
# into a folder of its own. Where Python's packages can't be had, it says so and ends with the status 77.
#
#   python/test.sh [ARGUMENT OF PYTEST …]
#
# FANGORN_TORCH=1 installs torch, too, which takes gigabytes; its tests are left out where it is not installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1-} in
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fangorn
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/target}
venv=${FANGORN_PYTHON_VENV:-$cache/python-venv}
packages=(pytest "numpy==2.*" pandas polars pyarrow scipy "scikit-learn==1.9.*" "xgboost-cpu==3.2.*" "lightgbm==4.6.*"
  "treelite==4.8.*" "catboost==1.2.*" onnx skl2onnx)
if [ -n "${FANGORN_TORCH-}" ]; then packages+=(torch); fi
if ! { [ -x "$venv/bin/python" ] || python3 -m venv "$venv"; } ||
  ! "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"; then
  echo "skipped: Python's packages can't be installed"
  exit 77
fi
cargo build --locked --manifest-path "$here/Cargo.toml"
package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
cp -rL "$here/python/fangorn" "$package/fangorn"
cp "$CARGO_TARGET_DIR/debug/lib_fangorn.so" "$package/fangorn/_fangorn.abi3.so"
cd "$here"
export PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1
"$venv/bin/python" -m pytest --quiet -p no:cacheprovider "${@:-tests}"
