// Elements of the page, and numbers as people read them. Texts become text nodes, so that no name in a file is markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** Returns an element of HTML. An attribute that begins with `on` is a listener. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Returns an element of SVG. */
export function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** Returns a picture as wide as its container. `label` describes it for screen readers. */
export function picture(width, height, label, ...children) {
  const attributes = { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label };
  return shape("svg", attributes, ...children);
}

/** Returns a number with four significant digits. A number that is not finite is a text already. */
export function number(value) {
  if (typeof value === "string") return value;
  const magnitude = Math.abs(value);
  if (magnitude === 0) return "0";
  if (magnitude < 1e-4 || magnitude >= 1e7) return value.toExponential(3);
  const whole = Math.floor(Math.log10(magnitude)) + 1;
  const text = value.toFixed(Math.max(4 - whole, 0));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Longer texts make a browser slow. */
const MOST_LETTERS = 200_000;

/** Returns the beginning of a long text, and how much is left out. */
export function shortened(text) {
  const over = text.length - MOST_LETTERS;
  return over > 0 ? `${text.slice(0, MOST_LETTERS)}\n… and ${over} more characters` : text;
}

/** Returns a count with separators between the thousands. */
export function count(value) {
  return value.toLocaleString("en");
}

/** Returns as much of a text as fits into `pixels`, with dots if something is left out. */
export function fitted(text, pixels, perLetter = 7) {
  const width = (letter) => (letter.codePointAt(0) >= 0x1100 ? 2 : 1) * perLetter;
  const letters = [...text.replace(/[\s\p{Cc}\u202a-\u202e\u2066-\u2069]+/gu, " ")];
  let room = pixels;
  const most = letters.findIndex((letter) => (room -= width(letter)) < 0);
  return most < 0 ? letters.join("") : letters.slice(0, Math.max(most - 1, 1)).join("") + "…";
}

/** Returns a name with the text `rest` after it. A long name is cut, but not the text after it. */
export function fittedName(name, rest, pixels) {
  const room = pixels - rest.length * 7;
  return room >= 40 ? fitted(name, room) + rest : fitted(name + rest, pixels);
}

/** Maps numbers to pixels. */
export class Scale {
  constructor([from, to], [left, right]) {
    Object.assign(this, { from, to: to > from ? to : from + (Math.abs(from) || 1), left, right });
  }

  of(value) {
    return this.left + ((value - this.from) / (this.to - this.from)) * (this.right - this.left);
  }

  /** Returns about `most` round numbers between the ends. */
  ticks(most) {
    const rough = (this.to - this.from) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const stride = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    if (!(stride > 0) || !Number.isFinite(stride)) return [this.from];
    const found = [];
    for (let n = Math.ceil(this.from / stride); n * stride <= this.to && found.length <= 2 * most; n++) found.push(n * stride);
    return found;
  }
}

/** Returns a figure: a title over a picture. */
export function figure(title, svg) {
  return element("figure", {}, element("h3", {}, title), svg);
}

/** Returns facts: names with values. */
export function facts(pairs) {
  const fact = ([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  return element("dl", {}, pairs.map(fact));
}

/** Returns a select element. An option is a text, or a value and a text. */
export function select(options, attributes = {}) {
  const option = (of) => element("option", Array.isArray(of) ? { value: of[0] } : {}, Array.isArray(of) ? of[1] : of);
  return element("select", attributes, options.map(option));
}
