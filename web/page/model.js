// The panel of the model: facts, the forest, histograms.

import { columns, histogram } from "./charts.js";
import { count, element, facts, figure, number, select } from "./dom.js";
import { treeView } from "./tree.js";

const FORMATS = {
  Fangorn: "Fangorn",
  XgboostJson: "XGBoost, JSON",
  XgboostUbjson: "XGBoost, UBJSON",
  LightGbm: "LightGBM, text",
  CatBoost: "CatBoost, JSON",
  Onnx: "ONNX",
  Treelite: "treelite",
  ScikitLearn: "scikit-learn, .npz",
};

function classesText({ class_rule: rule, class_labels: labels, outputs }) {
  if (rule === "none") return "none";
  const named = labels.length > 0 ? labels.slice(0, 8).join(", ") + (labels.length > 8 ? ", …" : "") : "numbered from 0";
  return outputs > 1 && labels.length === 0 ? `${outputs}, ${named}` : named;
}

function factsOf(summary) {
  const { producer, version, scale, transform } = summary;
  const scaled = scale === 1 ? "" : ` of ${number(scale)} × margin`;
  const bases = summary.base_score.slice(0, 4).map(number).join(", ") + (summary.base_score.length > 4 ? ", …" : "");
  return facts([
    ["trained by", `${producer} ${version}`.trim() || "unknown"],
    ["objective", summary.objective || "unknown"],
    ["columns", `${count(summary.columns)}, ${count(summary.used)} used`],
    ["outputs", count(summary.outputs)],
    ["classes", classesText(summary)],
    ["trees", count(summary.trees)],
    ["leaves", `${count(summary.leaves)}${summary.leaf_width > 1 ? ` of ${summary.leaf_width} values` : ""}`],
    ["deepest tree", String(Math.max(summary.depths.length - 1, 0))],
    ["value", transform === "identity" && !scaled ? "the margin" : `${transform.replaceAll("_", " ")}${scaled}`],
    ["base score", bases || "0"],
    ["compared in", summary.compare],
    ["file", FORMATS[summary.format] ?? summary.format],
  ]);
}

function columnsTable(features, used) {
  const line = ({ column, name, splits, thresholds, category_splits: category }) =>
    element("tr", {}, [name, column, splits, thresholds, category].map((cell) => element("td", {}, String(cell))));
  const head = ["feature", "column", "splits", "thresholds", "category splits"].map((name) => element("th", {}, name));
  const more = used > features.length ? ` The first ${count(features.length)} are listed.` : "";
  const table = element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, features.map(line))));
  return element("details", {}, element("summary", {}, `All columns that splits read.${more}`), table);
}

export function modelPanel(client, { summary }, fail) {
  const tree = treeView(client, summary, () => null, fail, false);
  const counted = summary.features.filter(({ thresholds }) => thresholds > 0);
  const column = select(counted.map((of) => [of.column, of.name]), { "aria-label": "column" });
  const title = element("h3", {}, "Thresholds of ");
  title.append(column);
  const view = element("figure", {}, title);
  let shown = false;
  async function thresholds() {
    if (counted.length === 0) return view.remove();
    try {
      const found = await client.ask("thresholds", Number(column.value));
      view.replaceChildren(title, histogram(found, "threshold"));
    } catch (error) {
      fail(error);
    }
  }
  column.addEventListener("change", thresholds);
  const charts = element(
    "div",
    { class: "charts" },
    view,
    figure("Leaf values", histogram(summary.leaf_values, "leaf value")),
    figure("Trees by depth", columns(summary.depths, "depth of the tree")),
    figure("Leaves by depth", columns(summary.leaf_depths, "depth of the leaf")),
  );
  return {
    children: [
      element("h2", {}, "The model"),
      factsOf(summary),
      element("h2", {}, "The trees"),
      ...tree.children,
      element("h2", {}, "Thresholds, leaf values and depths"),
      charts,
      summary.features.length > 0 ? columnsTable(summary.features, summary.used) : "",
    ],
    async show() {
      if (shown) return;
      shown = true;
      await Promise.all([tree.show(), thresholds()]);
    },
  };
}
