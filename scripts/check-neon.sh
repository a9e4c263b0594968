#!/usr/bin/env bash
# Runs the CPU's tests as a 64-bit ARM machine does, whose every core has NEON: built for one, under user-mode emulation.
#
#   scripts/check-neon.sh            all of them
#   scripts/check-neon.sh blends     tests of one file
#
# Needs Rust with rustup and, on Debian, root for the emulator and a linker. Half an hour on two cores from nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
rustup target list --installed | grep -qx "$target" || rustup target add "$target"
if ! command -v qemu-aarch64-static >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
  apt-get -qq update || true
  apt-get -qqy install --no-install-recommends qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
run() { cargo test --locked --target "$target" -p fangorn --no-default-features --features cli "$@"; }
if [ $# -gt 0 ]; then
  tests=()
  for name in "$@"; do tests+=(--test "$name"); done
  run "${tests[@]}"
  exit
fi
run --lib cpu::
run --test blends --test cpu --test ranks --test tiles --test predictor
run --test equivalence on_the_cpu
