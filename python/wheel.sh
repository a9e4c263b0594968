#!/usr/bin/env bash
# Builds the wheel, installs it into a new environment, and predicts with it: three lines of Python, and the command.
#
#   python/wheel.sh [FOLDER FOR THE WHEEL]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1-} in
  -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit ;;
esac
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/target}
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
dist=${1:-$new/dist}
python3 -m venv "$new/venv"
"$new/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$dist" "$here"
start=$SECONDS
"$new/venv/bin/pip" install --quiet --disable-pip-version-check "$dist"/fangorn-*.whl
cd "$here/../tests/zoo/churn"
"$new/venv/bin/python" - <<'END'
import fangorn, numpy
model = fangorn.load("model.ubj")
assert numpy.allclose(model.predict(numpy.load("rows.npy")), numpy.load("output.npy").ravel(), atol=1e-5)
END
echo "installed, and the first prediction made, in $((SECONDS - start)) s"
"$new/venv/bin/fangorn" predict model.ubj --rows rows.csv --expect output.npy >/dev/null
"$new/venv/bin/python" - <<'END'
import pathlib, fangorn
there = {path.name for path in pathlib.Path(fangorn.__file__).parent.rglob("*")}
missing = {"py.typed", "_fangorn.pyi", "_load.pyi", "_export_sklearn.py", "xgboost.py", "torch.py"} - there
assert not missing, missing
END
ls -l "$dist"
