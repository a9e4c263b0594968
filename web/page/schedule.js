// The panel of a schedule and the loops that it compiles to.

import { element, select, shortened } from "./dom.js";

function stage(title, what) {
  const text = element("pre", { tabindex: 0, "aria-label": title });
  return { view: element("div", {}, element("h3", {}, title), element("p", { class: "soft small" }, what), text), text };
}

export function schedulePanel(client, { summary }, fail) {
  const preset = select(summary.presets, { "aria-label": "preset", id: "preset" });
  const text = element("textarea", { spellcheck: "false", id: "schedule-text", "aria-label": "schedule" });
  const stages = {
    loops: stage("Loops (MIR)", "The loops that the schedule prescribes: first as written, then with sums that are safe in parallel. The command fangorn lower --emit loops prints them."),
    plan: stage("Plan (LIR)", "The loops with the nodes laid out in memory. The command fangorn lower --emit plan prints it."),
    program: stage("Program", "The code that runs in this page. The command fangorn lower --emit kernel prints it."),
  };
  const warnings = element("p", { class: "soft small" });
  let asked = 0;
  async function lower(schedule) {
    const mine = ++asked;
    fail(null);
    try {
      const found = await client.ask("stages", schedule);
      if (mine !== asked) return;
      text.value = found.schedule;
      warnings.textContent = found.warnings.join("; ");
      for (const [name, { text: pre }] of Object.entries(stages)) {
        pre.textContent = shortened(found[name]);
      }
    } catch (error) {
      if (mine !== asked) return;
      Object.values(stages).forEach(({ text: pre }) => (pre.textContent = ""));
      fail(error);
    }
  }
  preset.addEventListener("change", () => lower(preset.value));
  const own = element("button", { type: "button", class: "main", onclick: () => lower(text.value), id: "lower" }, "Compile this schedule");
  let shown = false;
  return {
    children: [
      element("h2", {}, "The schedule"),
      element("p", { class: "soft" }, "A schedule says how the forest is walked. It changes how long a prediction takes, and never its result. Choose a preset, or write directives, one in each line."),
      element("div", { class: "tools" }, element("label", {}, "preset", preset), own),
      text,
      warnings,
      element("h2", {}, "What it compiles to"),
      element("div", { class: "stages" }, stages.loops.view, element("div", {}, stages.plan.view, stages.program.view)),
    ],
    async show() {
      if (shown) return;
      shown = true;
      await lower(preset.value);
    },
  };
}
