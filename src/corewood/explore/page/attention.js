// Where the picked head looks: words with lines between them, and the matrix.
import { ask, Refused, stop } from "./api.js";
import { green, line, onColours } from "./colour.js";
import { byId, choices, draw, later, make, percent } from "./dom.js";
import { asked, change, hasText, isOpen, model, on, state, texts, unitOf } from "./state.js";

const ROW = 22; // pixels of a word
const FAINT = 0.03; // of the largest value: thinner lines are not drawn
let shown = null;
let looked = -1; // the word whose lines are shown alone
let written = ""; // the words that stand on the page

const fetchMap = later(60, async () => {
  const ready = hasText() && state.head;
  byId("no-attention").hidden = Boolean(ready);
  const missing = state.head ? "There is no text yet: type one, or take an example." : "Pick a head: click it in the grid.";
  byId("no-attention").textContent = missing;
  if (!ready) return hide("");
  const [layer, head] = state.head;
  const { normed, masked } = state;
  try {
    const found = await ask("attention", { ...asked(), ...texts(), layer, head, normed, masked });
    if (!found) return;
    shown = found;
    looked = Math.min(looked, found.words.length - 1);
    byId("attention").hidden = false;
    show();
  } catch (problem) {
    if (!(problem instanceof Refused)) throw problem;
    hide(problem.message);
  }
});

function hide(why) {
  stop("attention");
  shown = null;
  byId("attention").hidden = true;
  byId("attention-about").textContent = why;
}

function show() {
  if (!shown) return;
  drawWords();
  drawLines();
  drawMatrix();
  describe();
}

const most = () => Math.max(...shown.values.flat(), 1e-9);
const said = (value) => (state.normed ? value.toPrecision(2) : percent(value));
const kind = (word) => ["one", "two"][shown.sentence[word]] ?? "special";

function describe() {
  const [layer, head] = state.head;
  const every = shown.values.flatMap((row, from) => row.map((value, to) => [value, from, to]));
  const words = every.filter(([, from, to]) => kind(from) !== "special" && kind(to) !== "special");
  const pairs = words.length ? words : every;
  const [value, from, to] = pairs.reduce((best, one) => (one[0] > best[0] ? one : best));
  const closed = !isOpen(unitOf(layer, head));
  let text = `L${layer}.H${head}, strongest between words: “${shown.words[from]}” → “${shown.words[to]}”, ${said(value)}.`;
  if (closed && state.masked) text += " It is closed: where it looks, nothing goes.";
  if (shown.of > shown.words.length) text += ` The first ${shown.words.length} of ${shown.of} words are shown.`;
  byId("attention-about").textContent = text;
  byId("matrix").setAttribute("aria-label", `Attention of layer ${layer}, head ${head}, word by word. ${text}`);
}

// the same words keep their buttons, and with them the focus and the pointer
function drawWords() {
  const wanted = JSON.stringify([shown.words, shown.sentence]);
  if (wanted === written) return;
  written = wanted;
  const word = (text, i, side) => {
    const button = make("button", { class: `word ${kind(i)}`, text });
    if (side === "from") {
      button.addEventListener("pointerenter", () => look(i));
      button.addEventListener("focus", () => look(i));
    } else button.disabled = true;
    return make("li", {}, button);
  };
  for (const side of ["from", "to"]) byId(side).replaceChildren(...shown.words.map((text, i) => word(text, i, side)));
}

function look(word) {
  looked = word;
  drawLines();
  drawMatrix();
}

function drawLines() {
  const [height, largest, width] = [ROW * shown.words.length, most(), 100];
  const middle = (word) => ROW * word + ROW / 2;
  const threads = [];
  shown.values.forEach((row, from) => {
    if (looked >= 0 && from !== looked) return;
    row.forEach((value, to) => {
      if (value < FAINT * largest) return;
      const path = `M0 ${middle(from)} C${width / 2} ${middle(from)} ${width / 2} ${middle(to)} ${width} ${middle(to)}`;
      const stroke = line(shown.sentence[from] === 1 ? 3 : 0);
      threads.push(draw("path", { d: path, stroke, "stroke-opacity": (value / largest).toFixed(3) }));
    });
  });
  const svg = byId("threads");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.style.height = `${height}px`;
  svg.replaceChildren(...threads);
  byId("from").querySelectorAll(".word").forEach((word, i) => {
    word.classList.toggle("looked", i === looked);
    word.tabIndex = i === Math.max(looked, 0) ? 0 : -1; // one stop of the tab key
  });
  byId("to").querySelectorAll(".word").forEach((word, i) => {
    const value = looked >= 0 ? shown.values[looked][i] : 0;
    word.style.setProperty("--weight", looked >= 0 ? (value / Math.max(...shown.values[looked], 1e-9)).toFixed(3) : 0);
    word.dataset.value = looked >= 0 && value >= FAINT * largest ? said(value) : "";
  });
}

// rows look, columns are looked at
function drawMatrix() {
  const [words, largest] = [shown.words, most()];
  const cell = Math.max(7, Math.min(ROW, Math.floor(380 / words.length)));
  const left = 8 + 6.2 * Math.min(14, Math.max(...words.map((word) => word.length)));
  const size = cell * words.length;
  const cut = (word) => (word.length > 14 ? `${word.slice(0, 13)}…` : word);
  const every = Math.ceil(9 / cell); // rows between names that can be read
  const parts = [];
  words.forEach((word, i) => {
    if (i % every) return;
    const place = cell * i + cell / 2;
    const usual = { "dominant-baseline": "central", text: cut(word) };
    const beside = { x: left - 5, y: left + place, "text-anchor": "end", class: i === looked ? "looked" : "" };
    parts.push(draw("text", { ...usual, ...beside }));
    parts.push(draw("text", { ...usual, transform: `translate(${left + place} ${left - 5}) rotate(-90)` }));
  });
  shown.values.forEach((row, from) =>
    row.forEach((value, to) => {
      const title = draw("title", { text: `${words[from]} → ${words[to]}: ${said(value)}` });
      const fill = green(value / largest);
      const place = { x: left + cell * to, y: left + cell * from, width: cell - 0.5, height: cell - 0.5 };
      const opacity = looked >= 0 && from !== looked ? 0.35 : 1;
      parts.push(draw("rect", { ...place, fill, opacity, "data-from": from }, title));
    }));
  const svg = byId("matrix");
  svg.setAttribute("viewBox", `0 0 ${left + size} ${left + size}`);
  svg.style.maxWidth = `${left + size}px`;
  svg.replaceChildren(...parts);
}

byId("matrix").addEventListener("pointerover", (event) => {
  const from = event.target.closest("rect")?.dataset.from;
  if (from !== undefined && Number(from) !== looked) look(Number(from));
});
byId("attention").addEventListener("pointerleave", () => shown && look(-1));
byId("from").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !shown) return;
  event.preventDefault();
  const next = Math.min(Math.max(looked + step, 0), shown.words.length - 1);
  byId("from").querySelectorAll(".word")[next].focus();
});

// ---- which head, and how

function offer() {
  const numbers = (count) => [...Array(count).keys()].map((i) => [i, i]);
  choices(byId("layer"), numbers(model.units.layers), state.head?.[0] ?? "");
  choices(byId("head"), numbers(model.units.heads), state.head?.[1] ?? "");
}
for (const id of ["layer", "head"]) {
  byId(id).addEventListener("change", () => change({ head: [Number(byId("layer").value || 0), Number(byId("head").value || 0)] }));
}
for (const name of ["normed", "masked"]) {
  for (const input of document.querySelectorAll(`[name=${name}]`)) {
    input.addEventListener("change", () => change({ [name]: input.value === "1" }));
  }
}
function mark() {
  for (const name of ["normed", "masked"]) {
    for (const input of document.querySelectorAll(`[name=${name}]`)) input.checked = (input.value === "1") === state[name];
  }
  byId("layer").value = state.head?.[0] ?? "";
  byId("head").value = state.head?.[1] ?? "";
}

on(["model"], offer);
on(["head", "normed", "masked", "model"], mark);
on(["mask", "head", "normed", "masked", "first", "second", "ablate", "model"], fetchMap);
onColours(show);
