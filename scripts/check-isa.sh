#!/usr/bin/env bash
# Runs the CPU's tests under user-mode emulation of machines that this one is not.
#
#   scripts/check-isa.sh                  all of them on both
#   scripts/check-isa.sh neon             a 64-bit ARM, whose every core has NEON
#   scripts/check-isa.sh avx2             an x86-64 that has AVX2 and no AVX-512: what a mask of detection can't show, an
#                                         instruction too many, ends the test there
#   scripts/check-isa.sh neon blends::    tests of one file
#   FANGORN_ISA=portable scripts/check-isa.sh neon
#                                         an ARM's tests without NEON's own kernels
#
# Needs Rust with rustup and, on Debian, root for the emulators and a linker. Half an hour on two cores from nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v qemu-aarch64-static >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
  apt-get -qq update || true
  apt-get -qqy install --no-install-recommends qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="qemu-x86_64-static -cpu max"
# Emulation is slow: fewer random cases than on the machine itself.
export PROPTEST_CASES=${PROPTEST_CASES:-16}
files=("${@:2}")
[ ${#files[@]} -gt 0 ] || files=(blends:: cpu:: engines:: ranks:: tiles:: trace:: schedule_on_the_cpu schedules_on_the_cpu)
check() {
  rustup target list --installed | grep -qx "$1" || rustup target add "$1"
  run=(cargo test --locked --target "$1" -p fangorn --no-default-features --features tables)
  # A name that no test has would pass.
  "${run[@]}" --test suite -- "${files[@]}" | tee /dev/stderr | grep -c '^test .* ok$' >/dev/null
  [ ${#files[@]} -eq 1 ] || { "${run[@]}" --lib -- cpu:: ranks:: isa::; "${run[@]}" --test predictor; }
}
case ${1:-both} in
  neon) check aarch64-unknown-linux-gnu ;;
  avx2) check x86_64-unknown-linux-gnu ;;
  both) check aarch64-unknown-linux-gnu && check x86_64-unknown-linux-gnu ;;
  *) echo "scripts/check-isa.sh: $1: neon, avx2, or nothing for both" >&2; exit 2 ;;
esac
