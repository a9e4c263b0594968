// The panel of a benchmark: the time of a row on each schedule, measured in short slices by the worker.

import { times } from "./charts.js";
import { count, element, select } from "./dom.js";
import { webGpuPart } from "./webgpu.js";

/** Milliseconds of one measurement. Between two of them the worker answers other requests. */
const SLICE = 80;
const SLICES = 5;
/** The schedules that are chosen at first: presets for CPUs. */
const FIRST = ["default", "xgboost", "treebeard_one_tree", "treebeard_tiles", "treebeard_one_row", "hummingbird"];

export function benchPanel(client, state, fail) {
  const { summary } = state;
  const batch = select(
    [1, 16, 256, 1024, 4096, 65536].map((rows) => [rows, `${count(rows)} ${rows === 1 ? "row" : "rows"}`]),
    { "aria-label": "batch", id: "batch" },
  );
  batch.value = "256";
  const boxes = summary.presets.map((name) => element("input", { type: "checkbox", value: name, checked: FIRST.includes(name) }));
  const presets = element("div", { class: "presets" }, boxes.map((box) => element("label", {}, box, box.value)));
  const chart = element("div", { id: "bench-chart" });
  const notes = element("ul", { class: "soft small", id: "bench-notes" });
  const about = element("p", { class: "soft small" });
  const run = element("button", { type: "button", class: "main", id: "bench-run" }, "Measure");
  let stopped = true;

  const draw = (lines, rows) => chart.replaceChildren(element("figure", { class: "full" }, element("h3", {}, `Time for a row in a batch of ${count(rows)}`), times(lines)));

  async function prepare(line) {
    try {
      const found = await client.ask("benchPrepare", line.name);
      line.ready = true;
      line.about = [found.same_leaves ? "same leaves as the first schedule" : "OTHER LEAVES than the first schedule: this is a defect, please report it", `engines: ${found.engines.join(", ")}`, ...found.warnings].join("; ");
    } catch (error) {
      line.refused = true;
      line.about = error.message;
    }
  }

  async function measure() {
    fail(null);
    const lines = boxes.filter((box) => box.checked).map((box) => ({ name: box.value, seconds: 0, about: "" }));
    if (lines.length === 0) return fail(new Error("no schedule is chosen; choose one or more"));
    const rows = await client.ask("benchBegin", Number(batch.value));
    const dropped = state.rows.name;
    about.textContent = `Measured on the rows of ${dropped}, repeated until there are ${count(rows)}, as 32-bit floats on one thread. Each time is that of the fastest of several batches. A browser's clock is coarse, and these times are not those of the native program.`;
    for (const line of lines) {
      await prepare(line);
      for (let slice = 0; slice < SLICES && line.ready && !stopped; slice++) {
        const { seconds } = await client.ask("benchSlice", rows, SLICE);
        line.seconds = line.seconds > 0 ? Math.min(line.seconds, seconds) : seconds;
        draw(lines, rows);
      }
      draw(lines, rows);
      notes.replaceChildren(...lines.filter((of) => of.about).map((of) => element("li", {}, `${of.name}: ${of.about}`)));
      if (stopped) break;
    }
  }

  /** Ends the measurements, and lets none begin for the time being. */
  function pause(is) {
    stopped ||= is;
    run.disabled = is;
  }

  run.addEventListener("click", async () => {
    if (!stopped) {
      stopped = true;
      return;
    }
    if (state.rows === null) await state.makeRows();
    if (state.rows === null) return;
    stopped = false;
    run.textContent = "Stop";
    await measure().catch(fail);
    stopped = true;
    run.textContent = "Measure";
    chart.dataset.done = String(Number(chart.dataset.done ?? 0) + 1);
  });
  return {
    children: [
      element("h2", {}, "How fast each schedule is in this browser"),
      element("div", { class: "tools" }, element("label", {}, "batch of", batch), run),
      presets,
      chart,
      about,
      notes,
      ...webGpuPart(client, state, batch, pause, fail),
    ],
    rowsChanged() {
      stopped = true;
    },
    async show() {},
  };
}
