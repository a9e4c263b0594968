#!/usr/bin/env bash
# Builds for a 64-bit and a 32-bit ARM with Debian's compiler, and runs the tests that need no burn under user-mode
# emulation.
#
#   scripts/test-arm.sh                   all of them on both
#   scripts/test-arm.sh aarch64           a 64-bit ARM, whose every core has NEON
#   scripts/test-arm.sh armv7             a 32-bit ARM with hardware floats: `usize` has 32 bits, and all code is portable
#   scripts/test-arm.sh armv7 -- graphs:: zoo::
#                                         tests of tests/suite with one of these names, and of no other program
#
# Needs Debian, root, and network to Debian's packages and to crates.io; no Rust. The compiler, the libraries of the ARMs
# and the emulator are Debian sid's, in a chroot under the user's cache folder (4 GB), which is kept between runs, as are
# the builds. The tests of the command line are built only: they start the program, and an ARM's doesn't start here.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fangorn/arm
sid=$cache/sid
targets=() filters=()
while [ $# -gt 0 ]; do
  case $1 in
    aarch64|armv7) targets+=("$1") ;;
    --) filters=("${@:2}"); break ;;
    -h|--help) sed -n '2,/^set /{s/^# \{0,1\}//p}' "$0"; exit ;;
    *) echo "scripts/test-arm.sh: $1: aarch64, armv7, or nothing for both; see --help" >&2; exit 2 ;;
  esac
  shift
done
[ ${#targets[@]} -gt 0 ] || targets=(aarch64 armv7)
[ "$(id -u)" = 0 ] || { echo "scripts/test-arm.sh: needs root, for the chroot" >&2; exit 1; }
step() { printf '\n=== %s (%s s)\n' "$*" "$SECONDS"; }

# Runs a command in the chroot, in the checkout, which it can't write to. The mounts are gone when it ends.
inside() {
  unshare --mount bash -euc '
    here=$1 cache=$2 root=$2/sid
    mkdir -p "$root/source" "$root/cache" "$cache/cargo" "$cache/target"
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --bind -o ro "$here" "$root/source"
    mount --bind "$cache" "$root/cache"
    exec chroot "$root" env -C /source PATH=/usr/sbin:/usr/bin "${@:3}"' - "$here" "$cache" "$@"
}

# A chroot that is not complete is made anew.
if [ ! -e "$sid/.complete" ]; then
  step "Debian sid in $sid"
  command -v debootstrap >/dev/null || { apt-get -qq update || true; apt-get -qqy install --no-install-recommends debootstrap; }
  rm -rf "$sid"
  mkdir -p "$cache"
  debootstrap --variant=minbase sid "$sid"
  export DEBIAN_FRONTEND=noninteractive
  for arch in arm64 armhf; do inside dpkg --add-architecture "$arch"; done
  # A mirror may be frozen at a date; signatures are checked all the same.
  inside apt-get -qq -o Acquire::Check-Valid-Until=false update
  inside apt-get -qqy install --no-install-recommends ca-certificates rustc cargo gcc libc6-dev qemu-user \
    gcc-aarch64-linux-gnu libc6-dev:arm64 libstd-rust-dev:arm64 gcc-arm-linux-gnueabihf libc6-dev:armhf libstd-rust-dev:armhf
  inside apt-get clean
  touch "$sid/.complete"
fi
# The network as this machine has it today.
cp -L /etc/resolv.conf "$sid/etc/resolv.conf"
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$sid/etc/ssl/certs/"

export CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/cache/target CARGO_INCREMENTAL=0
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
export CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_LINKER=arm-linux-gnueabihf-gcc
export CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_RUNNER=qemu-arm
# Emulation is slow: fewer random cases than on the machine itself.
export PROPTEST_CASES=${PROPTEST_CASES:-16}
programs=(--lib --test suite --test predictor --test malformed --test malformed_onnx_prologue)
[ ${#filters[@]} -eq 0 ] || programs=(--test suite)
failed=()
for target in "${targets[@]}"; do
  case $target in
    aarch64) triple=aarch64-unknown-linux-gnu ;;
    armv7) triple=armv7-unknown-linux-gnueabihf ;;
  esac
  run=(cargo test --locked --target "$triple" -p fangorn --no-default-features --features tables)
  step "$target: build"
  inside "${run[@]}" --no-run "${programs[@]}" --test cli
  step "$target: tests"
  inside "${run[@]}" --no-fail-fast "${programs[@]}" -- "${filters[@]}" || failed+=("$target")
done
step "done"
[ ${#failed[@]} -eq 0 ] || { echo "scripts/test-arm.sh: tests failed on ${failed[*]}" >&2; exit 1; }
