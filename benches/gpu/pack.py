#!/usr/bin/env python3
"""Packs the tests and benches of a GPU for a machine without Rust and without a network.

It writes three archives, each of which can be left out:

  tests.tar.xz     the test programs `devices` and `suite`
  benches.tar.xz   fangorn and fangorn-benches
  peers.tar.xz     Python packages of the engines that benches/gpu/run.py compares

One build serves CUDA, Vulkan, Flex and NdArray. The packages' libraries keep the
device code of one architecture: XGBoost's goes from 237 MB to 26 MB packed. The
machine needs Python, torch, cupy, scikit-learn and matplotlib, and
benches/gpu/README.md says what to run there.

Examples:
  python3 benches/gpu/pack.py target/packed                   all three, for an H100 or H200
  python3 benches/gpu/pack.py target/packed --only peers --arch 80 --python-version 3.11
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FEATURES = "cuda,vulkan,flex,ndarray"
# The engines' packages, without those that the machine has already.
PACKAGES = ["nvforest.txt", "xgboost.txt", "hummingbird.txt"]
THERE = {"torch", "numpy", "scikit-learn", "onnx", "protobuf", "scipy", "matplotlib", "cupy-cuda13x[ctk]", "cuda-toolkit"}
BESIDE = ["rapids-logger==0.3.*", "onnxconverter-common", "dill"]
PLATFORMS = ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_24_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]
MAGIC = b"\x50\xed\x55\xba"


def note(text):
    print(f"pack.py: {text}", file=sys.stderr, flush=True)


def cargo(arguments):
    """The programs that cargo makes, by the name of their target."""
    command = ["cargo", *arguments, "--release", "--locked", "--features", FEATURES, "--message-format", "json-render-diagnostics"]
    note(" ".join(command))
    # Drivers of CUDA 13.0 and later take what is built for it.
    environment = {**os.environ, "CUDARC_CUDA_VERSION": "13000"}
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        sys.exit("pack.py: cargo fails, see above; the feature cuda needs scripts/setup-llvm23.sh")
    made = [json.loads(line) for line in done.stdout.splitlines() if '"executable":"' in line]
    return {m["target"]["name"]: pathlib.Path(m["executable"]) for m in made}


def archive(folder, out):
    """Packs a folder. Programs that link the same libraries share most bytes, so the dictionary spans several of them."""
    note(f"packing {out.name}")
    tar = subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE)
    with open(out, "wb") as file:
        subprocess.run(["xz", "--lzma2=preset=5,dict=512MiB"], stdin=tar.stdout, stdout=file, check=True)
    if tar.wait():
        sys.exit(f"pack.py: tar fails on {folder}")
    note(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


def programs(arguments, names, out):
    made = cargo(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            shutil.copy2(made[name], folder)
            copy = pathlib.Path(folder) / made[name].name
            subprocess.run(["strip", copy], check=True)
            copy.rename(copy.with_name(name))
        archive(folder, out)


def prune(file, arch):
    """Clears the device code of other architectures in a library; a driver takes the one that fits. The head of an
    entry: kind (2 is machine code), 2 bytes; version, 2; length of the head, 4; of the code, 8; 12 more; architecture, 4."""
    data = bytearray(file.read_bytes())
    found, at = collections.Counter(), data.find(MAGIC)
    while at >= 0:
        _, version, head, length = struct.unpack_from("<IHHQ", data, at)
        end = at + head + length
        if (version, head) != (1, 16) or end > len(data):
            at = data.find(MAGIC, at + 4)
            continue
        entry = at + head
        while entry + 32 <= end:
            kind, _, own, code = struct.unpack_from("<HHIQ", data, entry)
            of = struct.unpack_from("<I", data, entry + 28)[0]
            if own < 32 or entry + own + code > end:
                break
            found[kind == 2 and of == arch] += code
            if not (kind == 2 and of == arch):
                data[entry + own : entry + own + code] = bytes(code)
            entry += own + code
        at = data.find(MAGIC, end)
    if found[True]:
        file.write_bytes(data)
    elif found:
        note(f"{file.name} has no code for sm_{arch}; left as it is")


def peers(args, out):
    wanted = BESIDE[:]
    for name in PACKAGES:
        lines = (HERE / "requirements" / name).read_text().splitlines()
        wanted += [line for line in lines if line and line[0] != "#" and line.split("==")[0] not in THERE]
    with tempfile.TemporaryDirectory() as folder:
        wheels, site = pathlib.Path(folder) / "wheels", pathlib.Path(folder) / "site"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", str(wheels)]
        command += ["--implementation", "cp", "--python-version", args.python_version]
        command += [word for platform in PLATFORMS for word in ("--platform", platform)]
        subprocess.run(command + wanted, check=True)
        for wheel in sorted(wheels.iterdir()):
            zipfile.ZipFile(wheel).extractall(site)
        for library in site.rglob("*.so*"):
            prune(library, args.arch)
        for headers in [*site.glob("*/include"), *site.glob("*/lib64/cmake")]:
            shutil.rmtree(headers)
        archive(site, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the archives go")
    parser.add_argument("--only", default="tests,benches,peers", help="of these (default: %(default)s)")
    parser.add_argument("--arch", type=int, default=90, help="compute capability times ten (default: %(default)s)")
    parser.add_argument("--python-version", default="3.12", help="the machine's Python (default: %(default)s)")
    args = parser.parse_args()
    only = args.only.split(",")
    unknown = [name for name in only if name not in ("tests", "benches", "peers")]
    if unknown:
        parser.error(f"unknown archive {unknown[0]}; they are tests, benches and peers")
    args.folder.mkdir(parents=True, exist_ok=True)
    if "benches" in only:
        names = ["fangorn-benches", "fangorn"]
        programs(["build", "-p", "fangorn-benches", "-p", "fangorn"], names, args.folder / "benches.tar.xz")
    if "tests" in only:
        arguments = ["test", "--no-run", "-p", "fangorn", "--test", "devices", "--test", "suite"]
        programs(arguments, ["devices", "suite"], args.folder / "tests.tar.xz")
    if "peers" in only:
        peers(args, args.folder / "peers.tar.xz")


if __name__ == "__main__":
    main()
