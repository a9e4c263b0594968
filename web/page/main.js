// The page: files come in, and panels show what the worker makes of them.

import { Client } from "./client.js";
import { element } from "./dom.js";
import { benchPanel } from "./bench.js";
import { modelPanel } from "./model.js";
import { predictionsPanel } from "./predictions.js";
import { schedulePanel } from "./schedule.js";

const byId = (id) => document.getElementById(id);
const PANELS = { model: modelPanel, predictions: predictionsPanel, schedule: schedulePanel, bench: benchPanel };

/** The state of the page: the model's summary, its rows, and its panels. */
const state = { summary: null, rows: null, rowsFile: null, panels: {}, chosen: "model", most: null, makeRows };

let busyTimer = 0;
const client = new Client(ended, (busy) => {
  clearTimeout(busyTimer);
  if (!busy) byId("status").replaceChildren();
  else busyTimer = setTimeout(showBusy, 700);
});

/** Shows that an answer takes long, with a button that stops it. */
function showBusy() {
  if (byId("status").hasChildNodes()) return;
  const stop = element("button", { type: "button", onclick: () => client.restart("stopped: the model is closed; drop its file again") }, "Stop");
  byId("status").replaceChildren("Working… ", stop);
}

function fail(error) {
  byId("alert").textContent = error.message;
  byId("alert").hidden = false;
}

function calm() {
  byId("alert").hidden = true;
  byId("alert").textContent = "";
}

function note(notes) {
  byId("notes").replaceChildren(...notes.map((text) => element("li", {}, text)));
  byId("notes").hidden = notes.length === 0;
}

/** Forgets the model. */
function forget() {
  Object.assign(state, { summary: null, rows: null, rowsFile: null, panels: {} });
  byId("tabs").hidden = true;
  welcome(true);
  for (const id of Object.keys(PANELS)) byId(id).replaceChildren();
  for (const id of Object.keys(PANELS)) byId(id).hidden = true;
  setFile("model", null);
  setFile("rows", null);
  note([]);
}

/** Shows or hides the introduction. */
function welcome(is) {
  byId("welcome").hidden = !is;
  byId("example").classList.toggle("main", is);
}

function ended(message) {
  forget();
  fail(new Error(message));
}

const EMPTY = { model: byId("model-name").textContent, rows: byId("rows-name").textContent };

function setFile(kind, text) {
  byId(`${kind}-name`).textContent = text ?? EMPTY[kind];
  document.querySelector(`.drop[data-kind=${kind}]`).classList.toggle("full", text !== null);
}

/** Returns a file's bytes. A file that is too large is refused before it is read. */
async function bytesOf(file, kind) {
  const most = state.most[kind];
  if (file.size > most) {
    throw new Error(`${file.name}: the file has ${file.size} bytes, but the page takes up to ${most}; use the command fangorn for it`);
  }
  return file.arrayBuffer();
}

async function openModel(file) {
  calm();
  try {
    forget();
    setFile("model", `${file.name} …`);
    const bytes = await bytesOf(file, "model");
    state.summary = await client.ask("openModel", file.name, bytes);
    setFile("model", file.name);
    for (const [id, panel] of Object.entries(PANELS)) {
      state.panels[id] = panel(client, state, failIn(id));
      byId(id).replaceChildren(element("p", { class: "alert", role: "alert", hidden: true }), ...state.panels[id].children);
    }
    byId("tabs").hidden = false;
    welcome(false);
    await choose("model");
  } catch (error) {
    setFile("model", null);
    fail(error);
  }
}

/** Returns a function that shows an error in a panel. */
function failIn(id) {
  return (error) => {
    const message = byId(id).querySelector(".alert");
    if (message === null) return fail(error);
    message.textContent = error === null ? "" : error.message;
    message.hidden = error === null;
  };
}

/** Opens rows. `alone` says that they came without a model: then the page shows their predictions. */
async function openRows(file, alone = true) {
  if (state.summary === null) return fail(new Error("there is no model yet; drop the model's file first"));
  // The file is kept even if it is refused: the user may then choose to take columns in their order.
  state.rowsFile = file;
  await takeRows(async () => client.ask("openRows", file.name, await bytesOf(file, "rows"), byId("by-position").checked), alone);
}

async function makeRows() {
  if (state.summary === null) return fail(new Error("there is no model yet; drop the model's file first"));
  state.rowsFile = null;
  await takeRows(() => client.ask("makeRows"), true);
}

async function takeRows(ask, alone) {
  calm();
  try {
    state.rows = await ask();
    setFile("rows", `${state.rows.name}, ${state.rows.rows} rows`);
    note(state.rows.notes);
    for (const panel of Object.values(state.panels)) panel.rowsChanged?.();
    await choose(alone && state.chosen === "model" ? "predictions" : state.chosen);
  } catch (error) {
    fail(error);
  }
}

async function choose(id) {
  state.chosen = id;
  for (const panel of Object.keys(PANELS)) {
    byId(panel).hidden = panel !== id;
    byId(`tab-${panel}`).setAttribute("aria-selected", String(panel === id));
    byId(`tab-${panel}`).tabIndex = panel === id ? 0 : -1;
  }
  failIn(id)(null);
  await state.panels[id]?.show();
}

/** Opens dropped files: .csv and .npy as rows, others as a model. The model is opened first. */
async function drop(files) {
  const isRows = (file) => /\.(csv|npy)$/i.test(file.name);
  const model = files.find((file) => !isRows(file));
  const rows = files.find(isRows);
  if (model) await openModel(model);
  if (rows && (!model || state.summary !== null)) await openRows(rows, !model);
}

async function example() {
  byId("example").disabled = true;
  try {
    const read = async (name) => {
      const answer = await fetch(new URL(`example/${name}`, import.meta.url));
      if (!answer.ok) throw new Error(`example/${name}: the server answers ${answer.status}; put all files of the page on the server`);
      return new File([await answer.arrayBuffer()], name);
    };
    await drop([await read("churn.ubj"), await read("churn.csv")]);
  } catch (error) {
    fail(error);
  }
  byId("example").disabled = false;
}

function listen() {
  const chosen = (id, open) =>
    byId(id).addEventListener("change", ({ target }) => {
      const [file] = target.files;
      target.value = "";
      if (file) open(file);
    });
  chosen("model-file", openModel);
  chosen("rows-file", openRows);
  byId("make-rows").addEventListener("click", makeRows);
  byId("example").addEventListener("click", example);
  byId("by-position").addEventListener("change", () => state.rowsFile && openRows(state.rowsFile, false));
  const tabs = Object.keys(PANELS);
  for (const [at, id] of tabs.entries()) {
    byId(`tab-${id}`).addEventListener("click", () => choose(id));
    byId(`tab-${id}`).addEventListener("keydown", ({ key }) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
      if (by === undefined) return;
      const next = tabs[(at + by + tabs.length) % tabs.length];
      byId(`tab-${next}`).focus();
      choose(next);
    });
  }
  const over = (is) => document.querySelectorAll(".drop").forEach((area) => area.classList.toggle("over", is));
  addEventListener("dragover", (event) => {
    event.preventDefault();
    over(true);
  });
  addEventListener("dragleave", ({ relatedTarget }) => relatedTarget === null && over(false));
  addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    drop([...event.dataTransfer.files]);
  });
}

async function start() {
  try {
    const { version, most } = await client.ask("start");
    state.most = most;
    byId("version").textContent = version;
    listen();
    document.body.dataset.ready = "";
  } catch (error) {
    fail(error);
  }
}

start();
// For tests, which use the same client and the same `drop` as a user.
globalThis.fangorn = { client, drop, state };
