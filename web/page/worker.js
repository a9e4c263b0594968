// The worker: it holds the model and rows, and answers what the page asks.

import init, { Session } from "./fangorn.js";

let panic = null;
/** Ends the wait for an answer that a panic has made impossible. */
let giveUp = () => {};
globalThis.fangornPanicked = (message) => {
  panic = message;
  giveUp(new Error(message));
};
// After a panic in a module's own task the browser reports an error that nobody can catch. The answer says it already.
globalThis.addEventListener("error", (event) => panic !== null && event.preventDefault());

const started = init({ module_or_path: new URL("fangorn_bg.wasm", import.meta.url) });
let session = null;

/** Predicts batches for so many milliseconds. Returns the seconds of a row of the fastest batch. */
function benchSlice(count, milliseconds) {
  const end = performance.now() + milliseconds;
  let least = Infinity;
  let batches = 0;
  // Clocks of browsers are as coarse as 0.1 ms, so a measurement takes at least 10 ms.
  let repeats = 1;
  do {
    const begin = performance.now();
    let rows = 0;
    for (let n = 0; n < repeats; n++) rows += session.bench_run(count);
    const took = performance.now() - begin;
    batches += repeats;
    if (took < 10) repeats *= took > 1 ? Math.ceil(10 / took) : 8;
    else least = Math.min(least, took / 1000 / rows);
  } while (performance.now() < end || least === Infinity);
  return { seconds: least, batches };
}

/** The promise of the module for the GPU and of the browser's GPU, once somebody has asked for it. */
let gpu = null;
/** The model as it was compiled for the GPU last to predict, with the contract of its sums. */
let compiled = null;
/** The most bytes of rows, and of results, that the GPU takes at a time. */
const GPU_BYTES = 32 << 20;

/** Loads the module for the GPU, and asks the browser for its GPU. */
async function openGpu() {
  if (!navigator.gpu) throw new Error("this browser has no WebGPU; the page predicts on the processor");
  const begin = performance.now();
  const module = await import("./gpu/fangorn.js");
  await module.default({ module_or_path: new URL("gpu/fangorn_bg.wasm", import.meta.url) });
  const device = await module.Gpu.open();
  const files = performance.getEntriesByType("resource").filter(({ name }) => name.includes("/gpu/"));
  const bytes = files.reduce((sum, { decodedBodySize }) => sum + decodedBodySize, 0);
  return { device, bytes, milliseconds: performance.now() - begin };
}

/** Returns what `run` returns. If the GPU fails, the error says what to do. */
async function onGpu(run) {
  try {
    return await run();
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError || !error.message.startsWith("the GPU failed")) throw error;
    throw new Error(`${error.message}; load the page again to use the GPU, or predict on the processor`);
  }
}

/** Returns the GPU, once it is there. Another call tries again after a failure. */
function gpuThere() {
  gpu ??= openGpu();
  return gpu.catch((error) => {
    gpu = null;
    throw error;
  });
}

/** Returns what the page says about the GPU and the module for it. */
async function gpuAbout() {
  const { device, bytes, milliseconds } = await gpuThere();
  return { adapter: device.adapter(), bytes, milliseconds };
}

function forgetCompiled() {
  compiled?.forest.free();
  compiled = null;
}

/** Returns the model, compiled for the GPU with the default schedule. */
async function gpuForest(sum) {
  const { device } = await gpuThere();
  if (compiled?.sum !== sum) {
    forgetCompiled();
    compiled = { sum, forest: device.compile(session.model_file(), "default", sum) };
  }
  return compiled.forest;
}

/** Predicts some rows on the GPU. */
async function gpuPredict(first, count, sum) {
  const forest = await gpuForest(sum);
  const rows = session.single_rows(first, count);
  return session.predict_from(first, count, sum, await forest.margins(rows), await forest.leaf_slots(rows));
}

/** Returns the number of rows and their values. The GPU finds the margins, of at most `most` bytes of rows or results at a
 * time. */
async function gpuValues(sum, most = GPU_BYTES) {
  const [rows, columns, outputs] = session.all_rows(sum);
  const forest = await gpuForest(sum);
  const piece = Math.max(1, Math.floor(most / 4 / Math.max(columns, outputs)));
  const margins = new Float32Array(rows * outputs);
  for (let first = 0; first < rows; first += piece) {
    const found = await forest.margins(session.single_rows(first, piece));
    if (found.length !== Math.min(piece, rows - first) * outputs) throw new Error("the GPU failed: it returned too few margins");
    margins.set(found, first * outputs);
  }
  return { rows, values: session.values_of_margins(margins, sum) };
}

function areEqual(a, b) {
  return a.length === b.length && a.every((value, at) => value === b[at]);
}

function bitsOf(numbers) {
  return new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length);
}

/** Runs `count` rows on the GPU with a schedule, and compares the results with the processor's. */
async function gpuRun(schedule, count) {
  const { device, bytes, milliseconds } = await gpuThere();
  const rows = session.bench_begin(count);
  const [values, slots, model] = [session.bench_rows(), session.bench_slots(), session.model_file()];
  const compared = values.slice(0, (values.length / rows) * session.bench_compared());
  const forest = device.compile(model, schedule, "any");
  try {
    const sameLeaves = areEqual(await forest.leaf_slots(compared), slots);
    await forest.margins(values);
    let least = Infinity;
    for (let n = 0; n < 5; n++) {
      const began = performance.now();
      await forest.margins(values);
      least = Math.min(least, performance.now() - began);
    }
    const found = { adapter: device.adapter(), bytes, milliseconds, rows, sameLeaves, sameMargins: {} };
    Object.assign(found, { seconds: least / 1000 / rows, kernel: forest.kernel(), plan: forest.plan() });
    for (const sum of ["exact", "tree"]) found.sameMargins[sum] = await sameMargins(device, model, schedule, sum, values);
    return found;
  } finally {
    forest.free();
  }
}

/** Returns whether margins under a contract have the same bits on the GPU; null if the forest's sums can't keep the contract,
 * and a text that says why if those of the GPU can't with this schedule. */
async function sameMargins(device, model, schedule, sum, values) {
  let expected, forest;
  try {
    expected = session.bench_margins(sum);
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) throw error;
    return null;
  }
  try {
    forest = device.compile(model, schedule, sum);
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) throw error;
    return error.message;
  }
  try {
    return areEqual(bitsOf(await forest.margins(values)), bitsOf(expected));
  } finally {
    forest.free();
  }
}

const answers = {
  start: () => ({ version: Session.version(), most: { model: Session.most_model_bytes(), rows: Session.most_rows_bytes() } }),
  openModel: (name, bytes) => {
    forgetCompiled();
    return JSON.parse(session.open_model(name, new Uint8Array(bytes)));
  },
  openRows: (name, bytes, byPosition) => JSON.parse(session.open_rows(name, new Uint8Array(bytes), byPosition)),
  makeRows: () => JSON.parse(session.make_rows()),
  thresholds: (column) => JSON.parse(session.thresholds(column)),
  tree: (tree, depth, row) => JSON.parse(session.tree(tree, depth, row)),
  predict: (first, count, sum) => JSON.parse(session.predict(first, count, sum)),
  gpuPredict: (first, count, sum) => onGpu(async () => JSON.parse(await gpuPredict(first, count, sum))),
  margins: (sum) => session.margins(sum),
  values: (sum) => ({ rows: session.all_rows(sum)[0], values: session.values(sum) }),
  gpuValues: (sum, most) => onGpu(() => gpuValues(sum, most)),
  gpuAbout,
  explain: (row, output) => JSON.parse(session.explain(row, output)),
  stages: (schedule) => JSON.parse(session.stages(schedule)),
  benchBegin: (count) => session.bench_begin(count),
  benchPrepare: (schedule) => JSON.parse(session.bench_prepare(schedule)),
  benchSlice,
  benchSlots: () => session.bench_slots(),
  gpuRun: (schedule, count) => onGpu(() => gpuRun(schedule, count)),
  panic: () => session.panic(),
};

/** Returns the message of a worker whose WebAssembly has stopped. */
function whyEnded(error) {
  if (panic !== null) return `internal: ${panic}; this is a defect of fangorn, please report it with the file`;
  return `the program stopped (${error.message}), probably because the file needs more memory than a page has; use the command fangorn for it`;
}

async function answer({ id, what, given }) {
  try {
    await started;
    session ??= new Session();
    const ended = new Promise((_, reject) => {
      giveUp = reject;
    });
    // Nobody waits for it if the answer has come, or has failed, before.
    ended.catch(() => {});
    postMessage({ id, answer: await Promise.race([answers[what](...given), ended]) });
  } catch (error) {
    const ended = panic !== null || error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
    postMessage({ id, error: ended ? whyEnded(error) : error.message, ended });
  }
}

// One question after the other: what waits for the GPU finds the session as it was.
let last = Promise.resolve();
onmessage = ({ data }) => {
  last = last.then(() => answer(data));
};
