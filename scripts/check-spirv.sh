#!/usr/bin/env bash
# Holds the SPIR-V of every preset's kernel, for three models of the zoo, against the validator of spirv-tools. Ends at the
# first that is not valid.
# Usage: check-spirv.sh [FANGORN]     a binary built with `--features vulkan` (default: that of target/debug)
#
# Needs a Vulkan driver, of software if need be (scripts/setup-vulkan.sh), since the kernel is made for what it is able to;
# and spirv-as and spirv-val (Debian's spirv-tools). A device that the build refuses shared memory on leaves out what has it;
# with scripts/patched-cubecl-spirv.sh and FANGORN_SPIRV_SHARED_MEMORY=1 nothing is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
fangorn=${1:-target/debug/fangorn}
for tool in "$fangorn" spirv-as spirv-val; do
  command -v "$tool" >/dev/null || { echo "check-spirv.sh: no $tool: see the head of this script" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The refusal of an unknown preset lists them.
presets=$("$fangorn" lower tests/zoo/churn/model.ubj --schedule '?' --emit schedule 2>&1 | sed -n 's/.*the presets are //p' | tr -d , || true)
[ -n "$presets" ] || { echo "check-spirv.sh: $fangorn does not say what its presets are" >&2; exit 1; }

valid=0 refused=0
for model in churn lightgbm-categories vector-leaf; do
  for preset in $presets; do
    what="$model, $preset"
    if ! "$fangorn" lower tests/zoo/$model/model.* --schedule "$preset" --backend vulkan --emit kernel \
      >"$work/kernel.spvasm" 2>"$work/said"; then
      # Only that leaves a kernel out: without the backend or a driver there is nothing to check.
      grep -q VK_KHR_workgroup_memory_explicit_layout "$work/said" || { echo "check-spirv.sh: $what: $(head -1 "$work/said")" >&2; exit 1; }
      echo "left out: $what: $(head -1 "$work/said")"
      refused=$((refused + 1))
      continue
    fi
    # The version is a comment in the text, and the oldest Vulkan that takes it the rules to hold it against.
    version=$(sed -n 's/^; Version: //p' "$work/kernel.spvasm" | head -1)
    case $version in
      1.[0-3]) rules=vulkan1.1 ;;
      1.4) rules=vulkan1.1spv1.4 ;;
      1.5) rules=vulkan1.2 ;;
      1.6) rules=vulkan1.3 ;;
      *) echo "check-spirv.sh: $what: no SPIR-V, or of an unknown version: $(head -1 "$work/kernel.spvasm")" >&2; exit 1 ;;
    esac
    # The text has infinities and NaNs of 32 bits as Rust prints them, which the assembler knows by their digits.
    sed -E '/= OpConstant /{s/ inf$/ 0x1p+128/; s/ -inf$/ -0x1p+128/; s/ NaN$/ 0x1.8p+128/}' "$work/kernel.spvasm" >"$work/kernel.text"
    if ! spirv-as --preserve-numeric-ids --target-env "$rules" -o "$work/kernel.spv" "$work/kernel.text" >"$work/said" 2>&1; then
      echo "check-spirv.sh: $what: not assembled: $(head -1 "$work/said")" >&2
      exit 1
    fi
    # cubecl lays buffers out as scalars lie.
    if ! spirv-val --target-env "$rules" --scalar-block-layout "$work/kernel.spv" >"$work/said" 2>&1; then
      echo "check-spirv.sh: $what: not valid: $(head -1 "$work/said")" >&2
      exit 1
    fi
    valid=$((valid + 1))
  done
done
echo "valid: $valid kernels; left out: $refused"
[ "$valid" -gt 0 ]
