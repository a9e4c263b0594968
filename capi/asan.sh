#!/usr/bin/env bash
# Runs the tests of the C library's calls with AddressSanitizer in all of the library's code, its kernels among them. It
# needs a nightly toolchain.
#
#   capi/asan.sh [ARGUMENT OF THE TESTS …]      for example: capi/asan.sh options_are_kept
set -euo pipefail
cd "$(dirname "$0")"
case ${1-} in
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit ;;
esac
# With a target, cargo builds the programs that run at compile time without the sanitizer.
target=$(rustc +nightly -vV | sed -n 's/^host: //p')
RUSTFLAGS="${RUSTFLAGS-} -Zsanitizer=address" cargo +nightly test --locked --target "$target" --test abi -- "$@"
