#!/usr/bin/env bash
# Builds the wheel, installs it into a new environment, and predicts with it: three lines of Python, and the command.
# It fails if the installation, numpy included, and the first prediction take 10 seconds or more together.
#
#   python/wheel.sh [FOLDER FOR THE WHEEL]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1-} in
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit ;;
esac
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/target}
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
dist=${1:-$new/dist}
python3 -m venv "$new/venv"
"$new/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$dist" "$here"
start=$(python3 -c 'import time; print(time.time())')
"$new/venv/bin/pip" install --quiet --disable-pip-version-check "$dist"/fangorn-*.whl
cd "$here/../tests/zoo/churn"
"$new/venv/bin/python" - <<'END'
import fangorn, numpy
model = fangorn.load("model.ubj")
assert numpy.allclose(model.predict(numpy.load("rows.npy")), numpy.load("output.npy").ravel(), atol=1e-5)
END
python3 - "$start" <<'END'
import sys, time
seconds = time.time() - float(sys.argv[1])
print(f"installed, and the first prediction made, in {seconds:.1f} s")
sys.exit("python/wheel.sh: that is not less than 10 s" if seconds >= 10 else 0)
END
"$new/venv/bin/fangorn" predict model.ubj --rows rows.csv --expect output.npy >/dev/null
"$new/venv/bin/python" - <<'END'
import pathlib, fangorn
there = {path.name for path in pathlib.Path(fangorn.__file__).parent.rglob("*")}
missing = {"py.typed", "_fangorn.pyi", "_load.pyi", "_export_sklearn.py", "xgboost.py", "torch.py", "torch.pyi", "xgboost.pyi"} - there
assert not missing, missing
END
ls -l "$dist"
