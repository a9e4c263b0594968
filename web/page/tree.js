// Draws a tree from left to right: predicates, answers, leaves, and the path of a row.

import { count, element, fitted, fittedName, number, select, shape } from "./dom.js";
import { cellText } from "./charts.js";

const BOX = 182;
const HEIGHT = 24;
const STRIDE = BOX + 74;
const LINE = 32;

/** Returns a split's predicate as a text. */
export function predicateText({ feature, operator, threshold, categories, members }, inFull = false) {
  const value = inFull ? threshold : threshold === null ? null : number(threshold);
  switch (operator) {
    case "any":
      return `${feature} is present`;
    case "< or 0":
      return `${feature} < ${value}, zeros the other way`;
    case "in":
    case "not in": {
      const more = members > categories.length ? `, … (${members})` : "";
      return `${feature} ${operator} {${categories.join(", ")}${more}}`;
    }
    default:
      return `${feature} ${operator} ${value}`;
  }
}

/** Returns the text of a predicate, cut to fit into `pixels`. */
function fittedPredicate(predicate, pixels) {
  const text = predicateText(predicate);
  const isNumber = predicate.operator === "<" || predicate.operator === "=";
  return isNumber ? fittedName(predicate.feature, text.slice(predicate.feature.length), pixels) : fitted(text, pixels);
}

function leafText({ values, width }) {
  const shown = values.slice(0, width > 3 ? 2 : 3).map(number);
  return shown.join(", ") + (width > shown.length ? `, … (${width})` : "");
}

/** Gives each node a height: leaves below each other, and each split in the middle of its children. */
function heights(nodes) {
  let next = 0;
  const y = new Array(nodes.length);
  // Children come after their parents in the list. The order is depth first, without recursion: a chain may be as deep
  // as there are nodes.
  const open = [[0, false]];
  while (open.length > 0) {
    const [at, seen] = open.pop();
    const { children } = nodes[at];
    if (children === null) y[at] = next++;
    else if (seen) y[at] = (y[children[0]] + y[children[1]]) / 2;
    else open.push([at, true], [children[1], false], [children[0], false]);
  }
  return { y: y.map((line) => line * LINE + LINE / 2), lines: next };
}

function edge(nodes, y, parent, side) {
  const child = nodes[parent].children[side];
  const [from, to] = [nodes[parent], nodes[child]];
  const [x1, x2] = [from.depth * STRIDE + BOX, to.depth * STRIDE];
  const middle = (x1 + x2) / 2;
  const onPath = from.on_path && to.on_path;
  const share = nodes[0].cover > 0 && to.cover !== null ? to.cover / nodes[0].cover : 0.1;
  const width = onPath ? 3 : 1 + 5 * Math.min(Math.max(share, 0), 1);
  const curve = `M${x1} ${y[parent]}C${middle} ${y[parent]} ${middle} ${y[child]} ${x2} ${y[child]}`;
  const missing = from.question.missing_is_yes === (side === 0);
  const label = (side === 0 ? "yes" : "no") + (missing ? " / missing" : "");
  const line = shape("path", { d: curve, class: onPath ? "edge path" : "edge", "stroke-width": width.toFixed(2) });
  const at = { x: x2 - 5, y: y[child] - 5, class: onPath ? "label path end" : "label end" };
  return [onPath, line, shape("text", at, label)];
}

function box(node, x, y) {
  const { question: predicate, cover, on_path: onPath } = node;
  const width = node.width;
  const group = shape("g", { class: onPath ? "node path" : "node" });
  const about = [predicate ? predicateText(predicate, true) : `leaf ${node.id}: ${node.values.join(", ")}`];
  if (predicate && predicate.value !== null) about.push(`in this row ${cellText(predicate)}`);
  if (cover !== null) about.push(`cover ${number(cover)}`);
  group.append(shape("title", {}, about.join("; ")));
  group.append(shape("rect", { x, y: y - HEIGHT / 2, width: BOX, height: HEIGHT, rx: predicate ? 5 : 12, class: "box" }));
  if (predicate) {
    group.append(shape("text", { x: x + 8, y: y + 4 }, fittedPredicate(predicate, BOX - 14)));
    if (node.children === null) group.append(shape("text", { x: x + BOX + 5, y: y + 4, class: "soft" }, "…"));
  } else {
    const sign = width > 1 ? "zero" : node.values[0] > 0 ? "up" : node.values[0] < 0 ? "down" : "zero";
    group.append(shape("circle", { cx: x + 13, cy: y, r: 4.5, class: sign }));
    group.append(shape("text", { x: x + 24, y: y + 4 }, fitted(leafText(node), BOX - 32)));
  }
  return group;
}

/** Draws a tree. */
export function draw({ tree, nodes }) {
  const { y, lines } = heights(nodes);
  const deepest = nodes.reduce((most, node) => Math.max(most, node.depth), 0);
  const [width, height] = [deepest * STRIDE + BOX + 20, lines * LINE + 4];
  const edges = nodes.flatMap((node, at) => (node.children === null ? [] : [edge(nodes, y, at, 0), edge(nodes, y, at, 1)]));
  // The path comes last, so that it lies above the others.
  edges.sort((a, b) => a[0] - b[0]);
  const attributes = { class: "tree", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Tree ${tree}` };
  const boxes = nodes.map((node, at) => box(node, node.depth * STRIDE + 1, y[at]));
  return shape("svg", attributes, edges.map(([, line]) => line), edges.map(([, , label]) => label), boxes);
}

/**
 * Returns the view of a tree with the controls that choose it. `row` returns the row whose path is drawn, or null;
 * `ofRow` says that the view is about a row.
 */
export function treeView(client, summary, row, fail, ofRow) {
  const choice = element("input", { type: "number", min: 0, max: summary.trees - 1, value: 0, "aria-label": "tree" });
  const deepest = summary.depths.length - 1;
  const depths = [2, 3, 4, 6, 8].filter((depth) => depth < deepest).map((depth) => [depth, `${depth} levels`]);
  const path = ofRow && deepest > 1 ? [[0, "only the path"]] : [];
  const depth = select([...path, ...depths, [deepest, "all levels"]], { "aria-label": "levels" });
  if (!ofRow) depth.value = String(depths.some(([n]) => n === 3) ? 3 : deepest);
  const view = element("div", { class: "wide" });
  const about = element("p", { class: "soft small" });
  let asked = 0;
  async function show() {
    if (summary.trees === 0) return view.replaceChildren("The model has no trees.");
    const mine = ++asked;
    const tree = Math.min(Math.max(Math.trunc(Number(choice.value) || 0), 0), summary.trees - 1);
    choice.value = tree;
    try {
      const found = await client.ask("tree", tree, Number(depth.value), row() ?? undefined);
      if (mine !== asked) return;
      view.replaceChildren(draw(found));
      const output = found.output !== null && summary.outputs > 1 ? `adds to ${summary.class_labels[found.output] ?? `output ${found.output}`}; ` : "";
      const drawn = found.nodes.length < found.nodes_of_tree ? `${count(found.nodes.length)} of ${count(found.nodes_of_tree)} nodes are drawn` : `${count(found.nodes_of_tree)} nodes`;
      about.textContent = `Tree ${tree}: ${output}${drawn}, depth ${found.depth}. The width of a line shows how much of the training data took it, if the model's file says so.`;
    } catch (error) {
      fail(error);
    }
  }
  const move = (by) => () => {
    choice.value = Number(choice.value) + by;
    return show();
  };
  choice.addEventListener("change", show);
  depth.addEventListener("change", show);
  const tools = element(
    "div",
    { class: "tools" },
    element("label", {}, "tree", choice, `of ${count(summary.trees)}`),
    element("span", { class: "buttons" }, element("button", { type: "button", onclick: move(-1) }, "‹ previous"), element("button", { type: "button", onclick: move(1) }, "next ›")),
    element("label", {}, "show", depth),
  );
  return { children: [tools, view, about], show };
}
