// The part of the benchmark's panel that runs the forest on the GPU. The worker loads the module for it on demand.

import { count, element, number, select, shortened } from "./dom.js";

/** The presets that are made for GPUs come first. */
const FIRST = ["default", "rapids_fil", "nvforest", "tahoe_shared_data"];

function verdict({ sameLeaves, sameMargins }) {
  const [kept, broken] = [true, false].map((same) => Object.keys(sameMargins).filter((sum) => sameMargins[sum] === same));
  if (!sameLeaves || broken.length > 0) return "OTHER RESULTS than the processor: this is a defect, please report it";
  const contracts = `under the contract${kept.length > 1 ? "s" : ""} ${kept.join(" and ")}`;
  const margins = kept.length > 0 ? ` and, ${contracts}, margins of the same bits` : "; margins are not compared";
  const refused = Object.entries(sameMargins).filter(([, why]) => typeof why === "string");
  return `the same leaves as on the processor${margins}${refused.map(([sum, why]) => `; ${sum} is refused (${why})`).join("")}`;
}

/** `batch` is the element that holds the number of rows. `pause` is called with true before a run and with false after it:
 * a run takes the rows of the worker's benchmark. */
export function webGpuPart(client, state, batch, pause, fail) {
  const presets = [...FIRST, ...state.summary.presets.filter((name) => !FIRST.includes(name))];
  const preset = select(presets, { "aria-label": "preset for the GPU", id: "gpu-preset" });
  const run = element("button", { type: "button", id: "gpu-run" }, "Run on WebGPU");
  const result = element("div", { id: "gpu-result" });

  run.addEventListener("click", async () => {
    fail(null);
    if (state.rows === null) await state.makeRows();
    if (state.rows === null) return;
    run.disabled = true;
    pause(true);
    result.replaceChildren(element("p", { class: "soft" }, "Loading, compiling and running…"));
    try {
      const found = await client.ask("gpuRun", preset.value, Number(batch.value));
      const text = (what, title) => element("details", {}, element("summary", {}, title), element("pre", { tabindex: 0 }, shortened(what)));
      result.replaceChildren(
        element("p", {}, `${number(found.seconds * 1e6)} µs for a row in a batch of ${count(found.rows)}, copies to the GPU and back included; ${verdict(found)}.`),
        element("p", { class: "soft small" }, `The GPU: ${found.adapter}. The module for it has ${number(found.bytes / 1e6)} MB, and was ready after ${number(found.milliseconds / 1000)} s.`),
        text(found.plan, "The plan"),
        text(found.kernel, "The kernel, in WGSL"),
      );
    } catch (error) {
      result.replaceChildren();
      fail(error);
    }
    run.disabled = false;
    pause(false);
    result.dataset.done = String(Number(result.dataset.done ?? 0) + 1);
  });
  return [
    element("h2", {}, "On the GPU"),
    element("p", { class: "soft" }, "The kernel that Fangorn compiles for GPUs runs in this browser, too, on WebGPU. The page loads what that takes only now."),
    element("div", { class: "tools" }, element("label", {}, "preset", preset), run),
    result,
  ];
}
