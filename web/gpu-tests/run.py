#!/usr/bin/env python3
"""Build the tests of the kernels for WebGPU, and run them in headless Chromium, on its software adapter.

The kernels of Fangorn's GPU tests (leaf slots, margins, values, epilogues, gradients of leaf values, contributions and
interactions) run on generated cases. The module that runs them holds the reference interpreter, too, and compares what
they write. The script fails where a test does, or where the console says something: a kernel that Chromium's compiler
refuses, above all.

It needs what `web/test.py` needs, and ends with status 77 where that is not there.

Example:
  web/gpu-tests/run.py leaf_gradients contributions
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
WEB = HERE.parent
sys.path.insert(0, str(WEB))
from test import GPU_BROWSER, Server, skip  # noqa: E402

TRIPLE = "wasm32-unknown-unknown"
# Each test has a module of its own, because a panic ends one. A panic calls `fangornPanicked`. A kernel's name in WGSL is
# that of its function, and a hash.
RUN = """async (test) => {
  const kernels = new Set();
  const create = GPUDevice.prototype.createShaderModule;
  GPUDevice.prototype.createShaderModule = function (given) {
    for (const [, name] of given.code.matchAll(/@compute[^]*?fn (\\w+)/g)) kernels.add(name);
    return create.call(this, given);
  };
  const panicked = new Promise((_, reject) => globalThis.fangornPanicked = (message) => reject(new Error(message)));
  panicked.catch(() => {});
  const module = await import("/fangorn.js");
  await module.default({ module_or_path: "/fangorn_bg.wasm" });
  if (test === null) return [module.names(), []];
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error("no answer after ten minutes")), 600_000));
  return [await Promise.race([module.run(test), panicked, late]), [...kernels]];
}"""


def build(folder):
    """Build the module, and write it and its JavaScript to a folder."""
    if not shutil.which("cargo"):
        skip("there is no Rust")
    env = {**os.environ, "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS": "-C target-feature=+simd128"}
    command = ["cargo", "build", "--locked", "--release", "--target", TRIPLE, "--package", "fangorn-web-gpu-tests"]
    subprocess.run(command, cwd=WEB, env=env, check=True)
    subprocess.run(["cargo", "build", "--locked", "--package", "fangorn-web-bindgen"], cwd=WEB, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", WEB / "target"))
    module = target / TRIPLE / "release" / "fangorn_web_gpu_tests.wasm"
    subprocess.run([target / "debug" / "fangorn-web-bindgen", module, folder], check=True)
    (folder / "index.html").write_text('<!doctype html><link rel="icon" href="data:,">')


def all_kernels():
    """Return the names of all kernels that Fangorn launches."""
    files = (WEB.parent / "kernels" / "src").rglob("*.rs")
    return {name for file in files for name in re.findall(r"#\[cube\(launch\w*\)\]\s+pub fn (\w+)", file.read_text())}


def run(browser, address, test):
    """Run a test in a page of its own. Return what it answers, the kernels that it compiles, and what is wrong."""
    page = browser.new_page()
    problems = []
    page.on("console", lambda message: problems.append(f"the console says: {message.text}"))
    page.on("pageerror", lambda error: problems.append(f"an error: {error}"))
    page.goto(address)
    answer, kernels = None, []
    try:
        answer, kernels = page.evaluate(RUN, test)
    except Exception as error:
        # The rest of the text of a large forest, and the stack, help nobody.
        problems.insert(0, str(error)[:4000])
    page.close()
    return answer, kernels, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="run these tests only")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser"))
    args = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip("the Python package playwright is not installed; pip install playwright")
    if args.chromium is None:
        skip("there is no Chromium; apt-get install chromium")
    failed, kernels = [], set()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        build(pathlib.Path(folder))
        server = Server(folder)
        browser = driver.chromium.launch(executable_path=args.chromium, args=GPU_BROWSER)
        names, _, problems = run(browser, server.address, None)
        if problems:
            sys.exit("\n".join(problems))
        for unknown in sorted(set(args.tests) - set(names)):
            sys.exit(f"web/gpu-tests/run.py: there is no test {unknown}; there are {', '.join(names)}")
        for test in args.tests or names:
            begin = time.monotonic()
            answer, compiled, problems = run(browser, server.address, test)
            kernels.update(compiled)
            failed += [test] if problems else []
            print(f"{test}: {answer or 'failed'} ({time.monotonic() - begin:.1f} s)", *problems, sep="\n  ", flush=True)
        browser.close()
        server.shutdown()
    print(f"on WebGPU: {len(args.tests or names)} tests, {len(kernels)} kernels, {len(failed)} tests failed", *failed)
    never = sorted(all_kernels() - {name.rpartition("_")[0] for name in kernels})
    if never and not args.tests:
        sys.exit(f"web/gpu-tests/run.py: no test runs {', '.join(never)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
