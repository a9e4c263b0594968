#!/usr/bin/env bash
# Runs the tests of the C library's calls under Miri, which finds undefined behaviour. It needs a nightly toolchain with the
# components miri and rust-src, and takes many minutes.
#
#   capi/miri.sh [ARGUMENT OF THE TESTS …]      for example: capi/miri.sh options_are_kept
set -euo pipefail
cd "$(dirname "$0")"
case ${1-} in
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit ;;
esac
# Tests read the zoo's files. crossbeam, which rayon uses, keeps the rules of tree borrows only, and rayon's threads end with
# the program.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-ignore-leaks"
cargo +nightly miri test --locked --test abi -- "$@"
