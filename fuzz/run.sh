#!/usr/bin/env bash
# Fuzzes the importers, one after the other: fuzz/run.sh [SECONDS A TARGET] [TARGET ...]
# Needs a nightly Rust and cargo-fuzz (cargo install cargo-fuzz). Seeds are the small models of tests/zoo; what is
# found is kept in fuzz/artifacts, the corpus in fuzz/corpus, neither of which is committed.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-1800}
targets=("${@:2}")
if [ ${#targets[@]} = 0 ]; then
    targets=(xgboost_json xgboost_ubjson lightgbm catboost onnx treelite sklearn fangorn_file)
fi
for target in "${targets[@]}"; do
    seeds=fuzz/seeds/$target
    mkdir -p "$seeds" "fuzz/corpus/$target"
    if [ "$target" = fangorn_file ]; then
        cargo build --quiet --no-default-features --features cli
        for model in churn category-partition dart vector-leaf; do
            "${CARGO_TARGET_DIR:-target}/debug/fangorn" convert tests/zoo/$model/model.* -o "$seeds/$model.fangorn" >/dev/null
        done
    fi
    case $target in
        xgboost_json) find tests/zoo -name model.json -not -path '*catboost*' ;;
        xgboost_ubjson) find tests/zoo -name model.ubj ;;
        lightgbm) find tests/zoo -path '*lightgbm*' -name 'model.txt' ;;
        catboost) find tests/zoo -path '*catboost*' -name 'model.json' ;;
        onnx) find tests/zoo -name 'model.onnx' ;;
        treelite) find tests/zoo -name 'model.tl' ;;
        sklearn) find tests/zoo -name 'model.npz' ;;
        fangorn_file) ;;
    esac | while read -r model; do
        cp "$model" "$seeds/$(basename "$(dirname "$model")")"
    done
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "$seeds" -- \
        -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
done
