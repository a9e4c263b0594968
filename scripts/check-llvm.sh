#!/usr/bin/env bash
# The builds that need LLVM 23, outside the ordinary run of .ci/run: the GPU tests on cubecl's CPU runtime, and that
# `cuda` and `rocm` compile. Takes half an hour on two cores the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup-llvm23.sh
export CUDARC_CUDA_VERSION=${CUDARC_CUDA_VERSION:-13000} FANGORN_REQUIRE_GPU=1
cargo test -p fangorn --no-default-features --features cubecl-cpu --test gpu --test op
cargo check -p fangorn --no-default-features --features cuda
cargo check -p fangorn --no-default-features --features rocm
