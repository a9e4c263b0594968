// The panel of predictions: a table of rows, the path of a row, and its contributions.

import { cellText, waterfall } from "./charts.js";
import { count, element, number, select } from "./dom.js";
import { treeView } from "./tree.js";

const PAGE = 20;
/** The maximum numbers of columns of the table: for values and for margins each, and for the row itself. */
const MOST_VALUES = 8;
const MOST_CELLS = 6;

function outputNames({ outputs, class_labels: labels }, width, what) {
  if (width === 1) return [what];
  const named = labels.length === width || (width === outputs && labels.length >= width);
  return Array.from({ length: width }, (_, at) => `${what} ${named ? labels[at] : at}`);
}

/** Returns the table of a page of rows. */
function table(found, summary, chosen, choose) {
  const [width, outputs] = found.widths;
  const same = summary.transform === "identity" && summary.scale === 1;
  const names = [
    ...outputNames(summary, width, "value").slice(0, MOST_VALUES),
    ...(same ? [] : outputNames(summary, outputs, "margin").slice(0, MOST_VALUES)),
  ];
  const hasClasses = summary.class_rule !== "none";
  const cells = found.rows[0]?.cells.length ?? 0;
  const columns = summary.column_names.slice(0, Math.min(cells, MOST_CELLS));
  const more = summary.columns > columns.length ? ["…"] : [];
  const head = ["row", ...(hasClasses ? ["class"] : []), ...names, ...columns, ...more];
  const line = (row, at) => {
    const n = found.first + at;
    const values = row.values.slice(0, MOST_VALUES);
    const margins = same ? [] : row.margins.slice(0, MOST_VALUES);
    const texts = [n, ...(hasClasses ? [row.classes.join(", ")] : []), ...values.map(number), ...margins.map(number)];
    const own = [...row.cells.slice(0, columns.length).map(cellText), ...more];
    const pick = () => choose(n);
    const attributes = {
      class: n === chosen ? "row chosen" : "row",
      tabindex: 0,
      onclick: pick,
      onkeydown: ({ key }) => key === "Enter" && pick(),
    };
    const td = (text, soft) => element("td", { class: soft ? "soft" : null }, String(text));
    return element("tr", attributes, texts.map((text) => td(text, false)), own.map((text) => td(text, true)));
  };
  const thead = element("thead", {}, element("tr", {}, head.map((name) => element("th", {}, String(name)))));
  return element("table", { id: "rows-table" }, thead, element("tbody", {}, found.rows.map(line)));
}

/** Saves the values of all rows as a CSV file. */
async function save(client, summary, sum, onGpu) {
  const { rows, values } = await client.ask(onGpu ? "gpuValues" : "values", sum);
  const width = values.length / rows;
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [outputNames(summary, width, "value").map(quoted).join(",")];
  // The shortest text that is read back as the same float: more digits would be noise.
  const float = (value) => {
    for (let digits = 6; digits <= 9; digits++) {
      const text = value.toPrecision(digits);
      if (Math.fround(Number(text)) === value) return String(Number(text));
    }
    return String(value);
  };
  for (let row = 0; row < rows; row++) lines.push(Array.from(values.subarray(row * width, (row + 1) * width), float).join(","));
  const link = element("a", { href: URL.createObjectURL(new Blob([lines.join("\n"), "\n"])), download: "values.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Returns the waterfall of the chosen row. */
function whyView(client, summary, row, fail) {
  const names = outputNames(summary, summary.outputs, "output");
  const output = select(names.slice(0, 500).map((name, at) => [at, name]), { "aria-label": "output" });
  const view = element("div", { id: "why" });
  let asked = 0;
  async function show() {
    if (summary.unexplained !== null) {
      return view.replaceChildren(element("p", {}, `There are no contributions: ${summary.unexplained}.`));
    }
    const mine = ++asked;
    try {
      const found = await client.ask("explain", row(), Number(output.value));
      if (mine !== asked) return;
      view.replaceChildren(element("figure", { class: "full" }, waterfall(found)), element("p", { class: "soft small" }, `Computed by: ${found.plan}.`));
    } catch (error) {
      fail(error);
    }
  }
  output.addEventListener("change", show);
  const tools = names.length > 1 ? [element("div", { class: "tools" }, element("label", {}, "of", output))] : [];
  return { children: [...tools, view], show };
}

export function predictionsPanel(client, state, fail) {
  const { summary } = state;
  let first = 0;
  let chosen = 0;
  const sum = select(
    [
      ["exact", "exact: the same bits everywhere"],
      ["tree", "tree: added as the library does"],
      ["any", "any: the fastest order"],
    ],
    { "aria-label": "sums", id: "sum" },
  );
  const device = select(
    [
      ["cpu", "processor"],
      ["gpu", "GPU, by WebGPU"],
    ],
    { "aria-label": "device", id: "device" },
  );
  const onGpu = () => device.value === "gpu";
  const aboutGpu = element("p", { class: "soft small", id: "about-gpu", hidden: true });
  const view = element("div", { class: "wide" });
  const about = element("span", { class: "soft" });
  const row = () => (state.rows === null ? null : chosen);
  const why = whyView(client, summary, row, fail);
  const tree = treeView(client, summary, row, fail, true);
  const pathTitle = element("h2", {}, "");
  const whyTitle = element("h2", {}, "");
  const none = element("p", {}, "There are no rows yet. Drop a file of rows, choose one, or make rows to see their predictions.");
  const some = element("div", { hidden: true });
  let asked = 0;
  let choices = 0;

  async function rowsShown() {
    const mine = ++asked;
    fail(null);
    try {
      const found = await client.ask(onGpu() ? "gpuPredict" : "predict", first, PAGE, sum.value);
      if (mine !== asked) return;
      if (found.warnings.length > 0) fail(new Error(found.warnings.join("; ")));
      view.replaceChildren(table(found, summary, chosen, choose));
      about.textContent = `rows ${count(first)} to ${count(first + found.rows.length - 1)} of ${count(state.rows.rows)}`;
      back.disabled = first === 0;
      on.disabled = first + PAGE >= state.rows.rows;
    } catch (error) {
      if (mine !== asked) return;
      view.replaceChildren();
      fail(error);
    }
  }

  async function rowShown() {
    pathTitle.textContent = `The path of row ${chosen}`;
    whyTitle.textContent = `What adds up to the margin of row ${chosen}`;
    await Promise.all([why.show(), tree.show()]);
  }

  function choose(n) {
    chosen = n;
    for (const [at, line] of [...view.querySelectorAll("tbody tr")].entries()) line.classList.toggle("chosen", first + at === n);
    return rowShown();
  }

  const turn = (by) => () => {
    first = Math.max(first + by, 0);
    return rowsShown();
  };
  const back = element("button", { type: "button", onclick: turn(-PAGE) }, "‹ back");
  const on = element("button", { type: "button", onclick: turn(PAGE) }, "next ›");
  const saved = () => save(client, summary, sum.value, onGpu()).catch(fail);

  /** Predicts on the chosen device, and says what the GPU is. Without a GPU it stays with the processor. */
  async function deviceChosen() {
    const mine = ++choices;
    aboutGpu.hidden = true;
    if (!onGpu()) return rowsShown();
    try {
      const { adapter, bytes, milliseconds } = await client.ask("gpuAbout");
      if (mine !== choices) return;
      aboutGpu.textContent = `The GPU: ${adapter}. The module for it has ${number(bytes / 1e6)} MB, and was ready after ${number(milliseconds / 1000)} s.`;
      aboutGpu.hidden = false;
      await rowsShown();
    } catch (error) {
      if (mine !== choices) return;
      device.value = "cpu";
      await rowsShown();
      fail(error);
    }
  }
  const toSave = element("button", { type: "button", onclick: saved, id: "save" }, "Save all values as CSV");
  sum.addEventListener("change", rowsShown);
  device.addEventListener("change", deviceChosen);
  some.append(
    element("div", { class: "tools" }, element("label", {}, "sums", sum), ...(navigator.gpu ? [element("label", {}, "on", device)] : []), about, element("span", { class: "buttons" }, back, on), toSave),
    aboutGpu,
    view,
    element("p", { class: "soft small" }, "Choose a row to see its path through a tree, and what adds up to its margin."),
    whyTitle,
    ...why.children,
    pathTitle,
    ...tree.children,
  );
  let shown = null;
  return {
    children: [element("h2", {}, "Predictions"), none, some],
    rowsChanged() {
      [first, chosen, shown] = [0, 0, null];
    },
    async show() {
      none.hidden = state.rows !== null;
      some.hidden = state.rows === null;
      if (state.rows === null || shown === state.rows) return;
      shown = state.rows;
      await Promise.all([rowsShown(), rowShown()]);
    },
  };
}
