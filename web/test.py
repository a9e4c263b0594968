#!/usr/bin/env python3
"""Build the page, and check it in headless Chromium, over models of the zoo.

Every model is chosen with its rows, as a person does. The page's margins under `exact` are compared bit for bit with those
of the command `fangorn`, and its stages with `fangorn lower`. Wrong files are compared with the command's own message.
Every third model (with --all, every model) runs on WebGPU, too, by Chromium's software adapter: its leaves, and its margins
under `exact`, are the processor's. The script fails where a panel is empty, a picture has no size, a chart has no bar, the
page is wider than the screen, the console says something, or the page asks for anything after it is loaded but for the
module for WebGPU. At the end it prints the sizes of the page and of this module, and the time that the page takes to load;
it fails where these are too large.

It needs Chromium (`apt-get install chromium` on Debian), the Python package playwright, which drives it, and what
`web/build.sh` needs. It ends with status 77 where one of these is not there.

Example:
  web/test.py --screenshots /tmp
"""

import argparse
import ast
import base64
import gzip
import http.server
import json
import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading

WEB = pathlib.Path(__file__).resolve().parent
ROOT = WEB.parent
ZOO = ROOT / "tests" / "zoo"
SCREENS = {"wide": (1280, 900), "phone": (360, 740)}
TABS = ["model", "predictions", "schedule", "bench"]
MODELS = [
    "churn", "softprob", "category-names", "category-partition", "vector-leaf", "dart", "logistic-infinities", "wide-sparse",
    "lightgbm-categories", "lightgbm-multiclass", "lightgbm-zero-as-missing",
    "catboost-multiclass-depthwise", "catboost-one-hot", "catboost-one-hot-named", "catboost-many-borders",
    "sklearn-forest-classifier", "sklearn-histogram-categories", "sklearn-isolation-forest",
    "onnx-sklearn-forest", "onnx-lightgbm-categories", "onnx-least", "treelite-softmax", "treelite-categories-f64", "no-trees",
]
MARGINS = "() => fangorn.client.ask('margins', 'exact').then(m => [...new Uint32Array(m.buffer, m.byteOffset, m.length)])"
PRESETS = ["default", "xgboost", "treebeard_tiles", "hummingbird"]
# What runs on the GPU: the default, with shared memory, with trees in blocks, and with a unit for a row.
GPU_PRESETS = ["default", "rapids_fil", "nvforest", "nvforest_layered", "tahoe_direct", "tahoe_shared_data", "tahoe_shared_forest"]
GPU_BROWSER = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
GPU_RUN = """([preset, rows]) => fangorn.client.ask('gpuRun', preset, rows).then(
  ({sameLeaves, sameMargins, kernel}) => ({sameLeaves, sameMargins, letters: kernel.length}), ({message}) => ({message}))"""

# Predicts rows on the GPU and on the processor. Returns whether they are the same, or why the GPU does not predict.
GPU_PREDICT = """async () => {
  const {client, state: {rows: {rows}, summary: {columns, outputs}}} = fangorn;
  const same = (a, b) => a.length === b.length && a.every((bits, at) => bits === b[at]);
  const bits = (values) => new Uint32Array(values.buffer);
  try {
    const [here, there] = [await client.ask('predict', 1, 20, 'exact'), await client.ask('gpuPredict', 1, 20, 'exact')];
    const [mine, its] = [await client.ask('values', 'exact'), await client.ask('gpuValues', 'exact')];
    // Several pieces, the last one with fewer rows.
    const pieces = await client.ask('gpuValues', 'exact', 4 * Math.max(columns, outputs) * Math.ceil(rows / 3.5));
    const values = [its, pieces].every((found) => found.rows === mine.rows && same(bits(mine.values), bits(found.values)));
    return {rows: JSON.stringify(here) === JSON.stringify(there), values};
  } catch ({message}) { return message; }
}"""

# The titles of the model's charts, each with the number of its bars.
CHARTS = """() => [...document.querySelectorAll('#model .charts figure')].map(
  (chart) => [chart.querySelector('h3').firstChild.textContent.trim(), chart.querySelectorAll('rect.bar').length])"""
# Drops files on the page as a browser does; each is a name with its bytes in base64.
DROP = """(files) => {
  const dataTransfer = new DataTransfer();
  for (const [name, text] of files) dataTransfer.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
  const send = (type) => document.querySelector('h1').dispatchEvent(new DragEvent(type, {dataTransfer, bubbles: true, cancelable: true}));
  const over = !send('dragover');
  const marked = document.querySelectorAll('.drop.over').length;
  return {over, marked, drop: !send('drop')};
}"""

LOOK = """() => {
  const problems = [];
  const wide = document.documentElement.scrollWidth, room = document.documentElement.clientWidth;
  if (wide > room) problems.push(`the page is ${wide} pixels wide, the screen ${room}`);
  for (const svg of document.querySelectorAll('svg[role=img]')) {
    const what = svg.getAttribute('aria-label'), box = svg.getBoundingClientRect();
    if (!svg.checkVisibility()) continue;
    if (box.width < 100 || box.height < 20) problems.push(`${what}: ${box.width} x ${box.height} pixels`);
    for (const shape of svg.querySelectorAll('text,rect,circle')) {
      const inner = shape.getBoundingClientRect();
      const across = Math.max(box.left - inner.left, inner.right - box.right);
      const out = Math.max(across, box.top - inner.top, inner.bottom - box.bottom);
      if (out > 2) problems.push(`${what}: ${shape.tagName} ${shape.textContent} reaches ${out.toFixed(1)} pixels out`);
    }
    for (const shape of svg.querySelectorAll('*')) for (const {name, value} of shape.attributes)
      if (/^(x|y|d|cx|cy|width|height)$/.test(name) && /NaN|Infinity|undefined/.test(value)) problems.push(`${what}: ${name} ${value}`);
  }
  return problems;
}"""


def skip(why):
    print(f"web/test.py: skipped: {why}", file=sys.stderr)
    sys.exit(77)


def npy(path):
    """Return the type, the shape and the bytes of an array."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10 : 10 + length].decode())
    return header["descr"], header["shape"], data[10 + length :]


class Native:
    """The command `fangorn`, on one thread and with the instructions that every machine has."""

    def __init__(self, command, scratch):
        self.command, self.scratch = command, scratch
        self.env = {**os.environ, "RAYON_NUM_THREADS": "1", "FANGORN_ISA": "portable", "FANGORN_SELF_CHECK": "strict"}

    def run(self, *arguments):
        done = subprocess.run([self.command, *map(str, arguments)], env=self.env, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr.strip()

    def margins(self, model, rows):
        """Return the margins' bits, or the command's message."""
        out = self.scratch / "margins.npy"
        # The instructions of this machine: `exact` promises the same bits.
        done = subprocess.run(
            [self.command, "predict", model, "--rows", rows, "--output", "margin", "--sum", "exact", "-o", out],
            capture_output=True, text=True,
        )
        if done.returncode:
            return None, self.message(done.stderr, model, rows)
        descr, _, data = npy(out)
        assert descr == "<f4", descr
        return [bits for (bits,) in struct.iter_unpack("<I", data)], None

    @staticmethod
    def message(text, *paths):
        lines = [line for line in text.strip().splitlines() if line.startswith("fangorn: ")]
        line = lines[-1].removeprefix("fangorn: ")
        for path in paths:
            line = line.replace(str(path), path.name)
        return line


class Page:
    """The page in a browser, and what is wrong with it."""

    def __init__(self, browser, address, screen, scheme):
        self.problems, self.address, self.loaded, self.gpu = [], address, False, False
        size = {"width": SCREENS[screen][0], "height": SCREENS[screen][1]}
        self.context = browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True)
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.page.on("console", lambda message: self.wrong(f"the console says: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong(f"an error: {error}"))
        self.page.on("request", self.request)
        self.page.goto(address)
        try:
            self.page.wait_for_selector("body[data-ready]")
        except Exception:
            sys.exit("\n".join(["web/test.py: the page does not start", *self.problems, self.alert()]))
        self.loaded = True

    def wrong(self, what):
        self.problems.append(what)

    def request(self, request):
        url = request.url
        inside = url.startswith(self.address) or url.startswith(("data:", f"blob:{self.address}"))
        # A worker that starts again loads its own files again, and the example is a file beside the page.
        own = r"/(worker\.js|(gpu/)?fangorn\.js|(gpu/)?fangorn_bg\.wasm|example/\w+\.\w+)$"
        if not inside or self.loaded and not re.search(own, url) or "/gpu/" in url and not self.gpu:
            if not url.startswith("blob:"):
                self.wrong(f"a request: {url}")

    def expect(self, true, what):
        if not true:
            self.wrong(what)

    def alert(self):
        return self.page.evaluate("[...document.querySelectorAll('[role=alert]')].filter(a => a.checkVisibility()).map(a => a.textContent).join(' | ')")

    def settle(self):
        """Wait until the page has all its answers."""
        self.page.wait_for_function("() => fangorn.client.ask('start').then(() => true)")
        self.page.wait_for_timeout(60)

    def open(self, kind, path):
        """Choose a file, and wait until the page has taken or refused it."""
        where = f"#{kind}-file"
        self.page.evaluate("document.getElementById('alert').hidden = true")
        self.page.set_input_files(where, path)
        name = pathlib.Path(path).name
        self.page.wait_for_function(
            """([kind, name]) => !document.getElementById('alert').hidden ||
            (kind === 'model' ? fangorn.state.summary?.name : fangorn.state.rows?.name) === name""",
            arg=[kind, name],
        )
        self.settle()

    def example(self):
        self.page.click("#example")
        self.page.wait_for_function("() => fangorn.state.rows !== null")
        self.settle()

    def tab(self, name):
        self.page.click(f"#tab-{name}")
        self.settle()

    def look(self, what):
        self.problems += [f"{what}: {problem}" for problem in self.page.evaluate(LOOK)]

    def close(self):
        self.context.close()


def check_model(page, native, folder):
    """Choose a model and its rows, compare the margins, and look into every panel."""
    name = folder.name
    model, rows = next(folder.glob("model.*")), folder / "rows.npy"
    page.open("model", model)
    page.expect(page.alert() == "", f"{name}: {page.alert()}")
    expected, message = native.margins(model, rows)
    page.open("rows", rows)
    if message is not None and "sum:" not in message:
        page.expect(page.alert() == message, f"{name}: the page says `{page.alert()}`, the command `{message}`")
        return "refused alike"
    if message is None:
        found = page.page.evaluate(MARGINS)
        page.expect(found == expected, f"{name}: other margins than the command's: {found[:4]} {expected[:4]}")
    page.tab("predictions")
    trees = page.page.evaluate("fangorn.state.summary.trees")
    unexplained = page.page.evaluate("fangorn.state.summary.unexplained")
    page.look(f"{name}, predictions")
    page.expect(page.page.locator("#rows-table tbody tr").count() > 0, f"{name}: no predictions")
    page.page.locator("#rows-table tbody tr").nth(3).click()
    page.settle()
    if trees:
        paths = page.page.locator("#predictions svg.tree .node.path").count()
        page.expect(paths > 0, f"{name}: no path of the row is drawn")
    if unexplained is None:
        page.expect(page.page.locator("#why svg").count() == 1, f"{name}: no waterfall")
    else:
        page.expect(unexplained in page.page.inner_text("#why"), f"{name}: it doesn't say why there is no waterfall")
    page.expect(page.alert() == (message or ""), f"{name}: {page.alert()}")
    page.tab("model")
    page.look(f"{name}, model")
    page.expect(page.page.locator("#model dd").count() >= 10, f"{name}: no facts")
    page.expect(not trees or page.page.locator("#model svg.tree").count() == 1, f"{name}: no tree is drawn")
    compares = page.page.evaluate("fangorn.state.summary.features.some(({thresholds}) => thresholds > 0)")
    charts = page.page.evaluate(CHARTS)
    titles = ["Thresholds of"] * compares + ["Leaf values", "Trees by depth", "Leaves by depth"]
    page.expect([title for title, _ in charts] == titles, f"{name}: other charts than {titles}: {charts}")
    page.expect(not trees or all(bars for _, bars in charts), f"{name}: a chart has no bar: {charts}")
    page.tab("schedule")
    page.expect(page.alert() == "", f"{name}: {page.alert()}")
    page.look(f"{name}, schedule")
    return f"{len(expected or [])} margins"


def arrays(scratch):
    """Write the rows of `churn` as arrays of other types, orders and versions, and as texts."""
    churn = ZOO / "churn"
    _, (rows, columns), data = npy(churn / "rows.npy")
    values = [value for (value,) in struct.iter_unpack("<f", data)]
    by_columns = [values[r * columns + c] for c in range(columns) for r in range(rows)]
    whole = [0 if value != value else max(min(int(value), 127), -128) for value in values]

    def write(name, descr, numbers, code, fortran=False, version=1):
        header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({rows}, {columns}), }}".ljust(118).encode() + b"\n"
        length = struct.pack("<H", len(header)) if version == 1 else struct.pack("<I", len(header))
        begin = b"\x93NUMPY" + bytes([version, 0]) + length + header
        (scratch / name).write_bytes(begin + struct.pack(f"{'>' if descr[0] == '>' else '<'}{len(numbers)}{code}", *numbers))
        return scratch / name

    lines = (churn / "rows.csv").read_text().splitlines()
    (scratch / "marks.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(f'extra,{line}' if n == 0 else f'"a, b",{line}' for n, line in enumerate(lines)).encode())
    (scratch / "bare.csv").write_text("\n".join(lines[1:]))
    half = [value if value != value else max(min(value, 60000.0), -60000.0) for value in values]
    return [
        churn / "rows.csv", scratch / "marks.csv", scratch / "bare.csv",
        write("fortran.npy", "<f4", by_columns, "f", fortran=True),
        write("big.npy", ">f8", values, "d"),
        write("half.npy", "<f2", half, "e", version=2),
        write("bytes.npy", "|i1", whole, "b"),
        write("long.npy", ">i8", whole, "q", version=3),
        write("words.npy", "<u2", [abs(value) for value in whole], "H"),
        write("truths.npy", "|b1", [int(value > 3) for value in whole], "B"),
    ]


def check_rows(page, native, scratch):
    """Compare the margins of rows in other files, and of rows of doubles."""
    churn = ZOO / "churn"
    page.open("model", churn / "model.ubj")
    for rows in arrays(scratch):
        page.open("rows", rows)
        expected, message = native.margins(churn / "model.ubj", rows)
        page.expect(page.alert() == (message or ""), f"{rows.name}: {page.alert()} / {message}")
        page.expect(page.page.evaluate(MARGINS) == expected, f"{rows.name}: other margins than the command's")
    lines = (churn / "rows.csv").read_text().splitlines()
    renamed = scratch / "renamed.csv"
    renamed.write_text("\n".join([",".join(f"a{n}" for n in range(12)), *lines[1:]]))
    page.open("rows", renamed)
    page.expect("is a header without the model's names" in page.alert(), f"renamed.csv: {page.alert()}")
    page.page.check("#by-position")
    page.page.wait_for_function("() => fangorn.state.rows?.name === 'renamed.csv'")
    page.settle()
    expected, _ = native.margins(churn / "model.ubj", churn / "rows.csv")
    page.expect(page.page.evaluate(MARGINS) == expected, "renamed.csv: other margins by position")
    page.page.uncheck("#by-position")
    page.settle()
    for folder in sorted(path.parent for path in ZOO.glob("*/rows64.npy"))[:6]:
        model = next(folder.glob("model.*"))
        page.open("model", model)
        page.open("rows", folder / "rows64.npy")
        expected, _ = native.margins(model, folder / "rows64.npy")
        page.expect(page.page.evaluate(MARGINS) == expected, f"{folder.name}: other margins of doubles")


def check_stages(page, native):
    """Compare the stages with those of the command."""
    model = ZOO / "churn" / "model.ubj"
    page.open("model", model)
    page.tab("schedule")
    for preset in PRESETS:
        page.page.select_option("#preset", preset)
        page.settle()
        found = [page.page.input_value("#schedule-text"), *page.page.locator("#schedule pre").all_text_contents()]
        for stage, text in zip(["schedule", "loops", "plan", "kernel"], found, strict=True):
            code, expected, error = native.run("lower", model, "--schedule", preset, "--emit", stage)
            page.expect(code == 0, error)
            page.expect(text.strip() == expected.strip(), f"{preset}, {stage}: other text than `fangorn lower` prints")
    page.page.fill("#schedule-text", "tile(batch, b0, b1, 16)\nreorder(b0, tree, b1)\n")
    page.page.click("#lower")
    page.settle()
    page.expect(page.alert() == "" and "16" in page.page.inner_text("#schedule pre >> nth=0"), "an own schedule is not lowered")
    page.page.fill("#schedule-text", "tile(batch, b0\n")
    page.page.click("#lower")
    page.settle()
    page.expect(page.alert() != "", "a wrong schedule is not refused")


def check_panels(page):
    """Use what the panels have: trees, columns, outputs, pages of rows, and the benchmark."""
    inside = page.page
    page.example()
    page.tab("predictions")
    page.expect(inside.inner_text("#rows-name").endswith("20 rows"), "the example has other rows")
    first = inside.inner_text("#why")
    inside.locator("#rows-table tbody tr").nth(7).click()
    page.settle()
    page.expect(inside.inner_text("#why") != first, "another row has the same waterfall")
    inside.select_option("#sum", "any")
    page.settle()
    with inside.expect_download() as download:
        inside.click("#save")
    lines = pathlib.Path(download.value.path()).read_text().splitlines()
    page.expect(len(lines) == 21 and 0 <= float(lines[1]) <= 1, f"saved values: {lines[:2]}")
    page.tab("model")
    inside.fill("#model input[aria-label=tree]", "7")
    inside.press("#model input[aria-label=tree]", "Enter")
    page.settle()
    page.expect(inside.locator("#model svg.tree[aria-label='Tree 7']").count() == 1, "tree 7 is not drawn")
    inside.click("#model button:has-text('next')")
    page.settle()
    page.expect(inside.locator("#model svg.tree[aria-label='Tree 8']").count() == 1, "tree 8 is not drawn")
    inside.select_option("#model select[aria-label=levels]", label="2 levels")
    inside.select_option("#model select[aria-label=column]", index=2)
    page.settle()
    page.look("the panels, model")
    page.tab("bench")
    inside.select_option("#batch", "16")
    inside.click("#bench-run")
    inside.wait_for_selector("#bench-chart[data-done='1']", timeout=120_000)
    times = inside.locator("#bench-chart rect").count()
    page.expect(times >= 5, f"{times} bars of the benchmark")
    page.expect("OTHER LEAVES" not in inside.inner_text("#bench-notes"), inside.inner_text("#bench-notes"))
    page.look("the panels, benchmark")
    inside.press("#tab-bench", "ArrowLeft")
    page.settle()
    page.expect(inside.is_visible("#schedule"), "the arrow keys don't choose a tab")


def check_drop(page):
    """Drop a model with its rows anywhere on the page."""
    churn = ZOO / "churn"
    files = [[path.name, base64.b64encode(path.read_bytes()).decode()] for path in [churn / "rows.csv", churn / "model.ubj"]]
    found = page.page.evaluate(DROP, files)
    # An event whose default action stays would open the file in place of the page.
    page.expect(found == {"over": True, "marked": 2, "drop": True}, f"a drop is not taken: {found}")
    page.page.wait_for_function("() => fangorn.state.rows !== null || !document.getElementById('alert').hidden")
    page.settle()
    page.expect(page.alert() == "", f"dropped files: {page.alert()}")
    page.expect(page.page.evaluate("fangorn.state.summary?.name") == "model.ubj", "the dropped model is not open")
    page.expect(page.page.inner_text("#rows-name") == "rows.csv, 20 rows", page.page.inner_text("#rows-name"))
    page.expect(page.page.locator(".drop.over").count() == 0, "the page waits for a drop that came")


def wrong_files(scratch):
    """Make wrong files: of models, and of rows for `churn`."""
    churn = ZOO / "churn"
    lines = (churn / "rows.csv").read_text().splitlines()
    head = lines[0].split(",")
    models = {
        "text.json": b"Hello, I am no model.\n",
        "empty.ubj": b"",
        "cut.ubj": (churn / "model.ubj").read_bytes()[:5000],
        "table.parquet": b"PAR1" + bytes(100),
    }
    rows = {
        "lacks.csv": "\n".join(line.split(",", 1)[1] for line in lines),
        "words.csv": "\n".join([lines[0], lines[1].replace(lines[1].split(",")[3], "many")]),
        "short.csv": "\n".join([lines[0], "1,2"]),
        "semicolons.csv": "\n".join(lines).replace(",", ";"),
        "twice.csv": "\n".join(f"{line},{line.split(',')[0]}" for line in lines),
        "empty.csv": "",
        "header.csv": lines[0] + "\n",
        "quoted.csv": "\n".join([",".join(f'"{name}"' for name in head), "", '"1\n",' + lines[1].split(",", 1)[1]]),
        "other.npy": (ZOO / "softprob" / "rows.npy").read_bytes(),
        "leaves.npy": (churn / "leaves.npy").read_bytes(),
        "cut.npy": (churn / "rows.npy").read_bytes()[:500],
        "text.npy": b"Hello\n",
        "rows.txt": "1,2,3\n",
    }
    for name, content in {**models, **rows}.items():
        (scratch / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [scratch / name for name in models], [scratch / name for name in rows]


def check_wrong(page, native, scratch):
    """Choose wrong files, and compare the page's messages with the command's."""
    models, rows = wrong_files(scratch)
    churn = ZOO / "churn"
    graphs = [next((ROOT / "tests" / "zoo-classical" / name).glob("model.*")) for name in GRAPHS]
    for path in [*models, *graphs]:
        page.open("model", path)
        _, _, error = native.run("inspect", path)
        expected = Native.message(error, path)
        page.expect(page.alert() == expected, f"{path.name}: the page says `{page.alert()}`, the command `{expected}`")
        page.expect(page.page.is_hidden("#tabs"), f"{path.name}: a refused model has panels")
    page.open("model", churn / "model.ubj")
    for path in rows:
        page.open("rows", path)
        code, _, error = native.run("predict", churn / "model.ubj", "--rows", path)
        found = page.alert()
        if path.suffix == ".txt":
            page.expect("neither .csv nor .npy" in found, f"{path.name}: {found}")
        elif code == 0:
            page.expect(found == "", f"{path.name}: the page says `{found}`, the command takes it")
        else:
            expected = Native.message(error, path)
            page.expect(found == expected, f"{path.name}: the page says `{found}`, the command `{expected}`")
        page.expect(found == "" or len(found.splitlines()) == 1, f"{path.name}: {found}")
    page.expect(page.page.is_visible("#tabs"), "refused rows have closed the model")
    large = scratch / "large.json"
    with open(large, "wb") as file:
        file.truncate((128 << 20) + 1)
    page.open("model", large)
    page.expect("the page takes up to" in page.alert(), f"a large file: {page.alert()}")
    large.unlink()
    # A panic ends the worker, and the page goes on with another one.
    page.open("model", churn / "model.ubj")
    page.page.evaluate("fangorn.client.ask('panic').catch(() => {})")
    page.page.wait_for_function("() => !document.getElementById('alert').hidden")
    page.expect("this is a defect of fangorn" in page.alert(), f"a panic: {page.alert()}")
    page.open("model", churn / "model.ubj")
    page.expect(page.alert() == "" and page.page.is_visible("#tabs"), "after a panic no model is read")


GRAPHS = ["Pipeline", "linear-regression", "SVC"]


def screenshots(browser, address, folder):
    """Look at every panel on every screen, on a light and on a dark ground."""
    problems = []
    for screen in SCREENS:
        for scheme in ["light", "dark"]:
            page = Page(browser, address, screen, scheme)
            page.look("the empty page")
            if folder:
                page.page.screenshot(path=folder / f"web-{screen}-{scheme}-empty.png")
            page.example()
            for tab in TABS:
                page.tab(tab)
                if tab == "bench":
                    page.page.click("#bench-run")
                    page.page.wait_for_selector("#bench-chart[data-done='1']", timeout=120_000)
                page.look(tab)
                if folder:
                    page.page.screenshot(path=folder / f"web-{screen}-{scheme}-{tab}.png", full_page=True)
            problems += [f"{screen}, {scheme}: {problem}" for problem in page.problems]
            page.close()
    return problems


def load_seconds(browser, address):
    """Return the median of the seconds until the page is ready, each time with an empty cache."""
    found = []
    for _ in range(5):
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        found.append(page.evaluate("performance.now()") / 1000)
        context.close()
    return statistics.median(found)


def check_gpu(browser, address, names):
    """Run models on WebGPU, by presets for GPUs. Leaves are the processor's, and exact margins have its bits."""
    page = Page(browser, address, "wide", "light")
    page.gpu = True
    ran = refused = predicted = 0
    for name in names:
        page.open("model", next((ZOO / name).glob("model.*")))
        page.open("rows", ZOO / name / "rows.npy")
        if page.page.evaluate("fangorn.state.rows") is None:
            continue
        for preset in GPU_PRESETS:
            for rows in [1, 77]:
                found = page.page.evaluate(GPU_RUN, [preset, rows])
                what = f"{name} on the GPU, {preset}, {rows} rows"
                if "message" in found:
                    refused += 1
                    page.expect(re.match(r"(schedule|device|layout)", found["message"]), f"{what}: {found['message']}")
                else:
                    ran += 1
                    page.expect(found["sameLeaves"], f"{what}: other leaves")
                    check_margins(page, found, what)
                    page.expect(found["letters"] > 200, f"{what}: a kernel without text")
        same = page.page.evaluate(GPU_PREDICT)
        if isinstance(same, str):
            known = r"row \d+, .*float32|(schedule|device|layout|aggregate|base_score|trees|sum)"
            page.expect(re.match(known, same), f"{name} predicted on the GPU: {same}")
            print(f"{name} is not predicted on the GPU: {same}", flush=True)
        else:
            predicted += 1
            page.expect(same["rows"] and same["values"], f"{name} predicted on the GPU: {same}")
    page.example()
    page.tab("predictions")
    page.page.wait_for_selector("#rows-table")
    before = page.page.inner_text("#rows-table")
    page.page.select_option("#device", "gpu")
    page.page.wait_for_selector("#about-gpu:not([hidden])", timeout=120_000)
    page.settle()
    page.expect(page.page.inner_text("#rows-table") == before, "the GPU predicts other values for the example")
    page.expect("MB" in page.page.inner_text("#about-gpu"), page.page.inner_text("#about-gpu"))
    page.look("predictions by the GPU")
    page.tab("bench")
    page.page.click("#gpu-run")
    page.page.wait_for_selector("#gpu-result[data-done='1']", state="attached", timeout=120_000)
    told = page.page.inner_text("#gpu-result")
    page.expect("same leaves" in told and "same bits" in told and "MB" in told, f"the page says of the GPU: {told} {page.alert()}")
    page.look("the GPU")
    print(f"on the GPU: {ran} runs, {refused} refused by name", flush=True)
    page.expect(ran > 2 * len(names), f"on the GPU: {ran} runs")
    print(f"predicted on the GPU with the processor's bits: {predicted} models", flush=True)
    page.expect(2 * predicted > len(names), f"predicted on the GPU: {predicted} of {len(names)} models")
    problems = page.problems
    page.close()
    return problems


def check_margins(page, found, what):
    """Margins have the processor's bits under every contract that the forest and the GPU keep."""
    for contract, same in found["sameMargins"].items():
        refused = isinstance(same, str) and re.match(r"(schedule|device|layout)", same)
        page.expect(same in (True, None) or refused, f"{what}: other margins under {contract}, {same}")


def check_random_forests(browser, address, folder):
    """Run random forests on WebGPU, each with a preset. Leaves and margins are those of the reference interpreter."""
    page = Page(browser, address, "wide", "light")
    page.gpu = True
    ran = {"leaves": 0, "exact": 0, "tree": 0}
    for at, model in enumerate(sorted(folder.glob("*.fangorn"))):
        expected = json.loads(model.with_suffix(".json").read_text())
        page.open("model", model)
        page.open("rows", model.with_suffix(".npy"))
        rows = page.page.evaluate("fangorn.state.rows?.rows")
        what = f"{model.stem} on the GPU, {GPU_PRESETS[at % len(GPU_PRESETS)]}"
        if rows is None:
            page.expect("columns" in page.alert(), f"{what}: {page.alert()}")
            continue
        # The page's processor keeps the reference's leaves and margins, and the GPU those of the page's processor.
        margins = page.page.evaluate("fangorn.client.ask('margins', 'tree').then((all) => [...new Uint32Array(all.buffer)])")
        page.expect(margins == expected["margins"], f"{what}: the page has other margins than the reference")
        found = page.page.evaluate(GPU_RUN, [GPU_PRESETS[at % len(GPU_PRESETS)], rows])
        slots = page.page.evaluate("fangorn.client.ask('benchSlots').then((all) => [...all])")
        page.expect(slots == expected["slots"][: len(slots)], f"{what}: the page has other leaves than the reference")
        if "message" in found:
            page.expect(re.match(r"(schedule|device|layout)", found["message"]), f"{what}: {found['message']}")
            continue
        page.expect(found["sameLeaves"], f"{what}: other leaves")
        check_margins(page, found, what)
        ran["leaves"] += 1
        for contract, same in found["sameMargins"].items():
            ran[contract] += same is True
    print(f"random forests on the GPU: {ran}", flush=True)
    page.expect(min(ran.values()) > ran["leaves"] // 2 > 5, f"random forests on the GPU: {ran}")
    problems = page.problems
    page.close()
    return problems


def check_without_gpu(browser, address):
    """Where a browser has no WebGPU, the page says so."""
    page = Page(browser, address, "wide", "light")
    page.gpu = True
    page.example()
    page.tab("bench")
    page.page.click("#gpu-run")
    page.page.wait_for_selector("#gpu-result[data-done='1']", state="attached", timeout=120_000)
    page.expect("WebGPU" in page.alert(), f"without WebGPU the page says: {page.alert()}")
    problems = page.problems
    page.close()
    return problems


class Server(http.server.ThreadingHTTPServer):
    """Serves the page's folder on a free port of this machine."""

    def __init__(self, folder):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(folder))

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server_port}/"


def build(args):
    """Build the page and the command, unless they are given."""
    if not args.no_build:
        done = subprocess.run([WEB / "build.sh"])
        if done.returncode == 77:
            skip("web/build.sh has no compiler for WebAssembly")
        done.check_returncode()
    if args.fangorn is None:
        command = ["cargo", "build", "--locked", "--package", "fangorn", "--no-default-features", "--features", "cli"]
        subprocess.run(command, cwd=ROOT, check=True)
        args.fangorn = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "fangorn"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="check the web/dist that is there")
    parser.add_argument("--fangorn", type=pathlib.Path, help="the command to compare with; built where it is not given")
    parser.add_argument("--all", action="store_true", help="check all models of the zoo")
    parser.add_argument(
        "--cases", type=pathlib.Path, metavar="FOLDER",
        help="random forests to run on WebGPU, too: what FANGORN_PAGE_CASES=FOLDER cargo test --test suite page_cases wrote",
    )
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser"))
    parser.add_argument("--screenshots", type=pathlib.Path, help="a folder for pictures of the page")
    args = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip("the Python package playwright is not installed; pip install playwright")
    if args.chromium is None:
        skip("there is no Chromium; apt-get install chromium")
    build(args)
    names = sorted(path.name for path in ZOO.iterdir() if (path / "rows.npy").exists()) if args.all else MODELS
    server = Server(WEB / "dist")
    problems = []
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        scratch = pathlib.Path(scratch)
        native = Native(args.fangorn, scratch)
        browser = driver.chromium.launch(executable_path=args.chromium, args=["--no-sandbox"])
        page = Page(browser, server.address, "wide", "light")
        try:
            for name in names:
                print(f"{name}: {check_model(page, native, ZOO / name)}", flush=True)
            check_rows(page, native, scratch)
            check_stages(page, native)
            check_panels(page)
            check_drop(page)
            check_wrong(page, native, scratch)
        finally:
            print("\n".join(page.problems), flush=True)
        problems += page.problems
        page.close()
        problems += screenshots(browser, server.address, args.screenshots)
        problems += check_without_gpu(browser, server.address)
        seconds = load_seconds(browser, server.address)
        browser.close()
        browser = driver.chromium.launch(executable_path=args.chromium, args=GPU_BROWSER)
        # A software GPU compiles each kernel for about half a second.
        problems += check_gpu(browser, server.address, names if args.all else names[::3])
        if args.cases:
            problems += check_random_forests(browser, server.address, args.cases)
        browser.close()
    server.shutdown()
    files = [path for path in (WEB / "dist").iterdir() if path.is_file()]
    sizes = [sum(path.stat().st_size for path in files), sum(len(gzip.compress(path.read_bytes(), 9)) for path in files)]
    print("\n".join(problems) or f"{len(names)} models, nothing wrong")
    print(f"the page: {sizes[0]} bytes, {sizes[1]} compressed; ready after {seconds:.2f} s")
    module = (WEB / "dist" / "gpu" / "fangorn_bg.wasm").read_bytes()
    print(f"the module for WebGPU, loaded on demand: {len(module)} bytes, {len(gzip.compress(module, 9))} compressed")
    if sizes[1] > 3 << 20:
        sys.exit("web/test.py: the page is larger than 3 MiB compressed")
    if seconds > 3:
        sys.exit("web/test.py: the page is ready after more than 3 s")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
