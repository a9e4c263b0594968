// The worker: it holds the model and rows, and answers what the page asks.

import init, { Session } from "./fangorn.js";

let panic = null;
globalThis.fangornPanicked = (message) => {
  panic = message;
};

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

const answers = {
  start: () => ({ version: Session.version(), most: { model: Session.most_model_bytes(), rows: Session.most_rows_bytes() } }),
  openModel: (name, bytes) => JSON.parse(session.open_model(name, new Uint8Array(bytes))),
  openRows: (name, bytes, byPosition) => JSON.parse(session.open_rows(name, new Uint8Array(bytes), byPosition)),
  makeRows: () => JSON.parse(session.make_rows()),
  thresholds: (column) => JSON.parse(session.thresholds(column)),
  tree: (tree, depth, row) => JSON.parse(session.tree(tree, depth, row)),
  predict: (first, count, sum) => JSON.parse(session.predict(first, count, sum)),
  margins: (sum) => session.margins(sum),
  values: (sum) => session.values(sum),
  explain: (row, output) => JSON.parse(session.explain(row, output)),
  stages: (schedule) => JSON.parse(session.stages(schedule)),
  benchBegin: (count) => session.bench_begin(count),
  benchPrepare: (schedule) => JSON.parse(session.bench_prepare(schedule)),
  benchSlice,
  panic: () => session.panic(),
};

/** Returns the message of a worker whose WebAssembly has stopped. */
function whyEnded(error) {
  if (panic !== null) return `internal: ${panic}; this is a defect of fangorn, please report it with the file`;
  return `the program stopped (${error.message}), probably because the file needs more memory than a page has; use the command fangorn for it`;
}

onmessage = async ({ data: { id, what, given } }) => {
  try {
    await started;
    session ??= new Session();
    postMessage({ id, answer: answers[what](...given) });
  } catch (error) {
    const ended = panic !== null || error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
    postMessage({ id, error: ended ? whyEnded(error) : error.message, ended });
  }
};
