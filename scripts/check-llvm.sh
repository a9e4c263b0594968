#!/usr/bin/env bash
# What needs LLVM 23, outside the ordinary run of .ci/run: every test of GPUs on cubecl's CPU runtime; every preset's kernel
# as PTX through NVIDIA's assembler, and as AMD's code objects; that `cuda` and `rocm` build. Takes half an hour on two cores
# the first time, most of it the build: the tests of GPUs run for 90 seconds of the processor's, in cubes of as many units
# as there are cores. Other work on the cores stretches that to minutes, since units spin at barriers; don't run it under
# nice then.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fangorn
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/llvm-target} CARGO_INCREMENTAL=0
export CUDARC_CUDA_VERSION=${CUDARC_CUDA_VERSION:-13000} FANGORN_REQUIRE_GPU=1 FANGORN_TEST_DEVICE=cubecl-cpu
scripts/setup-llvm23.sh

# NVIDIA's assembler, from the Python registry.
if [ -z "${FANGORN_PTXAS:-}" ]; then
  [ -d "$cache/tools/nvcc" ] || python3 -m venv "$cache/tools/nvcc"
  "$cache/tools/nvcc/bin/pip" install --quiet nvidia-cuda-nvcc==13.0.88
  FANGORN_PTXAS=$(find "$cache/tools/nvcc" -name ptxas -type f | head -1)
fi
export FANGORN_PTXAS

cargo test --locked -p fangorn --no-default-features --features tables,cuda,rocm,cubecl-cpu \
  --test offline --test cli
cargo test --locked -p fangorn --no-default-features --features tables,cuda,rocm,cubecl-cpu \
  --test devices --test suite -- gpu:: gpu_properties:: gpu_sums:: op:: papers:: replayed:: equivalence::
