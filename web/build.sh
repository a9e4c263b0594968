#!/usr/bin/env bash
# Builds the page into web/dist: a folder of static files, which any web server can serve.
#
#   web/build.sh            builds web/dist
#   web/build.sh --serve    the same, and serves it on http://localhost:8000 (needs Python)
#
# Needs Rust with the target wasm32-unknown-unknown, which rustup adds; what else it needs, cargo builds. Ends with status
# 77 where the target can't be had.
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-$PWD/target}
triple=wasm32-unknown-unknown

case ${1-} in
  ''|--serve) ;;
  *) sed -n '2,/^set /{s/^# \{0,1\}//p}' "$0"; [ "$1" = --help ] || exit 2; exit ;;
esac
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ]; then
  command -v rustup >/dev/null && rustup target add "$triple" ||
    { echo "web/build.sh: skipped: there is no Rust for $triple; rustup target add $triple" >&2; exit 77; }
fi

export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-C target-feature=+simd128"
cargo build --locked --release --target "$triple"
# A module of its own, which the page loads only for WebGPU.
cargo build --locked --release --target "$triple" --package fangorn-web-gpu
# The program that writes the JavaScript runs here, and needs no speed.
cargo build --locked --package fangorn-web-bindgen

# The folder is made beside the old one and takes its place whole.
new=$PWD/dist.new
rm -rf "$new"
mkdir -p "$new/example" "$new/gpu"
"$target/debug/fangorn-web-bindgen" "$target/$triple/release/fangorn_web.wasm" "$new"
"$target/debug/fangorn-web-bindgen" "$target/$triple/release/fangorn_web_gpu.wasm" "$new/gpu"
cp page/* "$new/"
cp ../tests/zoo/churn/model.ubj "$new/example/churn.ubj"
cp ../tests/zoo/churn/rows.csv "$new/example/churn.csv"
rm -rf dist
mv "$new" dist
for file in dist/* dist/gpu/* dist/example/*; do
  [ -d "$file" ] || printf '%9d bytes, %8d compressed  %s\n' "$(wc -c <"$file")" "$(gzip -9c "$file" | wc -c)" "$file"
done

if [ "${1-}" = --serve ]; then
  exec python3 -m http.server --bind 127.0.0.1 --directory dist 8000
fi
