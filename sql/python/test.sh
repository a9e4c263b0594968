#!/usr/bin/env bash
# Builds the module fangorn_datafusion, and tests it with Python's package datafusion, which it installs into a folder of its
# own. Where Python's packages can't be had, it says so and ends with the status 77.
#
#   sql/python/test.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1-} in
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fangorn
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/../target}
venv=$cache/datafusion-venv
if ! { [ -x "$venv/bin/python" ] || python3 -m venv "$venv"; } ||
  ! "$venv/bin/pip" install --quiet --disable-pip-version-check "datafusion==55.*" numpy pyarrow; then
  echo "skipped: the Python package datafusion can't be installed"
  exit 77
fi
# All targets have the features that the tests of the workspace have, so that DataFusion is compiled once.
cargo build --locked --manifest-path "$here/../Cargo.toml" --workspace --all-targets --features fangorn-sql/cluster
module=$(mktemp -d)
trap 'rm -rf "$module"' EXIT
cp "$CARGO_TARGET_DIR/debug/libfangorn_datafusion.so" "$module/fangorn_datafusion.abi3.so"
PYTHONPATH=$module "$venv/bin/python" "$here/test.py"
