// Charts: counts as bars, a waterfall of contributions, and times of schedules.

import { Scale, count, fitted, fittedName, number, picture, shape } from "./dom.js";

const WIDTH = 420;
const LINE = 22;

/** Returns the width of a chart that is as wide as the page, so that texts stay readable on a phone. */
function roomy() {
  return Math.min(Math.max(document.documentElement.clientWidth - 32, 320), 720);
}

function text(x, y, classes, content) {
  return shape("text", { x, y, class: classes }, content);
}

function bar(x, y, width, height, classes, title) {
  const attributes = { x, y, width: Math.max(width, 1), height: Math.max(height, 0), class: classes, rx: 1.5 };
  return shape("rect", attributes, shape("title", {}, title));
}

function line(from, to) {
  return shape("path", { d: `M${from[0]} ${from[1]}L${to[0]} ${to[1]}`, class: "axis" });
}

/** Returns the scale, the grid lines and the edges of a chart of counts. */
function counted(counts) {
  const ends = { left: 52, right: WIDTH - 12, height: 130 };
  const y = new Scale([0, Math.max(...counts, 1)], [ends.height, 8]);
  const shapes = y.ticks(3).filter(Number.isInteger).flatMap((tick) => [
    line([ends.left, y.of(tick)], [ends.right, y.of(tick)]),
    text(ends.left - 5, y.of(tick) + 3.5, "soft small end", count(tick)),
  ]);
  return { y, shapes, ...ends };
}

/** Draws a histogram: the count of numbers in each of several bins of equal width. */
export function histogram({ counts, least, largest }, what) {
  const { y, shapes, left, right, height } = counted(counts);
  if (counts.length === 0) return picture(WIDTH, 40, what, text(WIDTH / 2, 24, "soft middle", "there are none"));
  const x = new Scale([least, largest], [left, right]);
  const stride = (right - left) / counts.length;
  const gap = Math.min(0.12 * stride, 4);
  const width = counts.length === 1 ? 40 : stride - gap;
  const from = (at) => (counts.length === 1 ? (left + right) / 2 - 20 : left + stride * at + gap / 2);
  const begin = (at) => number(least + ((largest - least) / counts.length) * at);
  counts.forEach((n, at) => {
    const title = counts.length === 1 ? `${number(least)}: ${n}` : `from ${begin(at)} to ${begin(at + 1)}: ${n}`;
    if (n > 0) shapes.push(bar(from(at), y.of(n), width, height - y.of(n), "bar", title));
  });
  shapes.push(line([left, height], [right, height]));
  const ticks = counts.length === 1 ? [[(left + right) / 2, least]] : x.ticks(4).map((tick) => [x.of(tick), tick]);
  for (const [at, value] of ticks) {
    shapes.push(line([at, height], [at, height + 4]));
    const label = number(value);
    const half = label.length * 3;
    shapes.push(text(Math.min(Math.max(at, half), WIDTH - half), height + 15, "soft small middle", label));
  }
  shapes.push(text((left + right) / 2, height + 30, "soft small middle", what));
  return picture(WIDTH, height + 36, what, shapes);
}

/** Draws counts as bars side by side, with its index below each. */
export function columns(counts, what) {
  const first = Math.max(counts.findIndex((n) => n > 0), 0);
  const shown = counts.slice(first);
  const { y, shapes, left, right, height } = counted(shown);
  const stride = (right - left) / Math.max(shown.length, 1);
  const every = Math.ceil((String(counts.length).length * 6.5 + 6) / stride);
  const width = Math.min(stride - Math.min(0.25 * stride, 12), 40);
  shown.forEach((n, at) => {
    const middle = left + stride * (at + 0.5);
    if (n > 0) shapes.push(bar(middle - width / 2, y.of(n), width, height - y.of(n), "bar", `${first + at}: ${n}`));
    if (at % every === 0) shapes.push(text(middle, height + 15, "soft small middle", first + at));
  });
  shapes.push(line([left, height], [right, height]));
  shapes.push(text((left + right) / 2, height + 30, "soft small middle", what));
  return picture(WIDTH, height + 36, what, shapes);
}

/** Returns a value of a row in words. */
export function cellText({ value, category }) {
  return value === "NaN" ? "missing" : (category ?? number(value));
}

/** Draws how contributions lead from the bias to a row's margin, with the largest ones on top. */
export function waterfall({ bias, margin, steps, others, rest }) {
  const lines = steps.map(({ feature, cell, contribution }) => [feature, ` = ${cellText(cell)}`, contribution]);
  if (others > 0) lines.push([`${others} other features`, "", rest]);
  const width = roomy();
  const [names, top] = [width < 480 ? 135 : 230, 20];
  const height = lines.length * LINE;
  const before = [];
  let at = bias;
  for (let n = lines.length - 1; n >= 0; n--) {
    before[n] = at;
    at += lines[n][2];
  }
  const ends = [...before, at, bias];
  const x = new Scale([Math.min(...ends), Math.max(...ends)], [names + 54, width - 60]);
  const label = `margin ${number(margin)}`;
  const half = label.length * 3.2;
  const shapes = [
    text(Math.min(x.of(at), width - half), 12, "strong small middle", label),
    line([x.of(at), top - 4], [x.of(at), top + 2]),
    line([x.of(bias), top], [x.of(bias), top + height + 4]),
  ];
  lines.forEach(([feature, cell, contribution], n) => {
    const name = feature + cell;
    const y = top + n * LINE;
    const [a, b] = [x.of(before[n]), x.of(before[n] + contribution)];
    const [left, right] = [Math.min(a, b), Math.max(a, b)];
    const up = contribution >= 0;
    const value = `${up ? "+" : ""}${number(contribution)}`;
    const full = shape("title", {}, name);
    shapes.push(shape("text", { x: names - 8, y: y + 15, class: "end" }, fittedName(feature, cell, names - 12), full));
    shapes.push(bar(left, y + 3, right - left, LINE - 7, up ? "up" : "down", `${name}: ${contribution}`));
    const room = value.length * 6 + 7;
    const toLeft = up ? right + room > width : left - room > names;
    shapes.push(text(toLeft ? left - 5 : right + 5, y + 15, toLeft ? "soft small end" : "soft small", value));
  });
  const expected = `expected ${number(bias)}`;
  const halfExpected = expected.length * 3;
  shapes.push(text(Math.min(Math.max(x.of(bias), names), width - halfExpected), top + height + 16, "soft small middle", expected));
  return picture(width, top + height + 24, `Contributions to a margin of ${number(margin)}`, shapes);
}

/** Returns seconds in a unit that suits them. */
export function duration(seconds) {
  const [unit, factor] = [["ns", 1e9], ["µs", 1e6], ["ms", 1e3], ["s", 1]].find(([, factor]) => seconds * factor < 1000) ?? ["s", 1];
  return `${number(seconds * factor)} ${unit}`;
}

/** Draws the seconds that a row takes on each schedule: `{name, seconds}`, without seconds while nothing is known. */
export function times(lines) {
  const width = roomy();
  const names = width < 480 ? 130 : 190;
  const known = lines.filter(({ seconds }) => seconds > 0).map(({ seconds }) => seconds);
  const x = new Scale([0, Math.max(...known, 1e-12)], [names, width - 92]);
  const best = Math.min(...known);
  const shapes = lines.flatMap(({ name, seconds, refused }, at) => {
    const y = at * 26;
    const title = shape("title", {}, name);
    const found = [shape("text", { x: names - 8, y: y + 16, class: "end" }, fitted(name, names - 12), title)];
    if (seconds > 0) {
      const value = `${duration(seconds)} a row`;
      found.push(bar(names, y + 3, x.of(seconds) - names, 18, seconds === best ? "best" : "bar", `${name}: ${value}`));
      found.push(text(x.of(seconds) + 5, y + 16, "soft small", value));
    } else found.push(text(names + 2, y + 16, "soft small", refused ? "refused" : "…"));
    return found;
  });
  return picture(width, lines.length * 26 + 4, "Time for a row, by schedule", shapes);
}
