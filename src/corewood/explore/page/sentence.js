// A text, what the full model and what is open say of it, and which single unit would flip that.
import { ask, follow, Refused, stop } from "./api.js";
import { FLIPS, offer as offerColours } from "./colour.js";
import { byId, groups, later, make, many, number, percent, points, speak } from "./dom.js";
import { toggle } from "./grid.js";
import { asked, change, hasText, isOpen, model, nameOf, on, state, texts } from "./state.js";

const NO_TEXT = "Type a sentence, or take an example: then every click shows here what it does.";
const CHIPS = 16; // units that flip the answer, as buttons
const [ENOUGH, TIMES] = [5, 50]; // clicks that the median is of
const fields = { first: byId("first"), second: byId("second") };
let shown = null; // the answer on the page
let traced = null; // what was open before it
let example = null; // {number, dataset, case, gold, first, second}
let times = [];
let colourBefore = "";

// ---- the answer

async function answer(changed) {
  const empty = !hasText();
  byId("no-text").hidden = !empty;
  byId("answers").hidden = empty || !shown;
  byId("no-text").textContent = model.pair && state.first.trim() ? "This task has two sentences: type the second, too." : NO_TEXT;
  if (empty) {
    stop("answer");
    shown = traced = null;
    return;
  }
  const [started, byClick] = [performance.now(), changed.includes("mask")];
  try {
    const found = await ask("answer", { ...asked(), ...texts() });
    if (!found) return;
    traced = byClick && shown && shown.text === key() ? shown : null;
    shown = { ...found, text: key() };
    byId("answers").hidden = false;
    showAnswer();
    if (byClick) requestAnimationFrame(() => timed(performance.now() - started));
  } catch (problem) {
    fail(problem);
  }
}
const key = () => JSON.stringify([state.place, texts()]);

function fail(problem) {
  if (!(problem instanceof Refused)) throw problem;
  byId("verdict").textContent = problem.message;
  byId("answers").hidden = false;
}

const best = (chances) => chances.indexOf(Math.max(...chances));

// of one class a model gives a number: its bar is as long as the largest of those shown
function bars(place, chances, ghosts, flipped) {
  const number = chances.length === 1;
  const most = number ? Math.max(...[...shown.full, ...shown.now, ...(ghosts ?? [])].map(Math.abs), 1e-9) : 1;
  const won = best(chances);
  const rows = chances.map((chance, i) => {
    const name = make("span", { class: "class", text: shown.classes[i] });
    const value = make("span", { class: "value", text: number ? chance.toFixed(3) : percent(chance) });
    const [bar, ghost] = [make("i", { class: "bar" }), make("i", { class: "ghost" })];
    bar.style.width = `${(100 * Math.abs(chance)) / most}%`;
    ghost.hidden = !ghosts || Math.abs(ghosts[i] - chance) < 0.005 * most;
    if (ghosts) ghost.style.width = `${(100 * Math.abs(ghosts[i])) / most}%`;
    const row = make("div", { class: `answer${i === won ? " won" : ""}${i === won && flipped ? " turned" : ""}` }, name, value,
      make("span", { class: "track" }, ghost, bar));
    if (ghosts && !ghost.hidden) row.title = `before: ${number ? ghosts[i].toFixed(3) : percent(ghosts[i])}`;
    return row;
  });
  byId(place).replaceChildren(...rows);
}

function showAnswer() {
  const { full, now, classes, tokens, cut } = shown;
  const [whole, open] = [best(full), best(now)];
  const turned = whole !== open;
  bars("bars-full", full, null, false);
  bars("bars-now", now, traced?.now, turned);
  byId("flipped").hidden = !turned;
  const said = (chances, i) => (chances.length === 1 ? chances[0].toFixed(3) : `${classes[i]}, ${percent(chances[i])}`);
  const flip = `Flipped: the full model says ${said(full, whole)}; what is open says ${said(now, open)}.`;
  let text = turned ? flip : `Both say ${classes[open]}.`;
  if (now.length === 1) text = `The full model gives ${said(full, 0)}, what is open ${said(now, 0)}.`;
  if (traced && best(traced.now) !== open) text += ` Before this click it was ${said(traced.now, best(traced.now))}.`;
  if (cut) text += ` The text is longer than the model reads: it was cut to ${many(cut, "token")}.`;
  byId("verdict").textContent = text.replaceAll(" %", "\u00a0%");
  byId("answers").dataset.tokens = tokens;
  byId("answers").dataset.logits = JSON.stringify(shown.logits);
  if (traced) speak(text);
}

function timed(taken) {
  times = [...times, taken].slice(-TIMES);
  const middle = [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)];
  if (times.length >= ENOUGH) byId("latency").textContent = `${Math.round(middle)} ms from click to answer`;
  byId("latency").title = `The median of ${many(times.length, "click")}; texts of ${shown?.tokens ?? 0} tokens`;
  byId("latency").dataset.median = middle;
}

// ---- which single unit flips it

async function searchFlips() {
  if (!hasText()) return;
  const bar = byId("flip-progress");
  bar.hidden = false;
  bar.value = 0;
  const seconds = model.seconds.among * state.mask.length;
  byId("flips").textContent = seconds > 5 ? `About ${Math.ceil(seconds)} s with this model.` : "";
  try {
    const found = await follow("flips", { ...asked(), ...texts() }, (done, total) => (bar.value = done / total));
    if (!found) return;
    const says = found.changes.some((v) => v) ? `change of “${found.answer}” by a click on it` : "no click changes anything";
    const raw = model.labels.length === 1; // a model that gives numbers
    model.flips = { name: FLIPS, kind: "signed", says, values: found.changes, raw, flips: found.flips.map(({ unit }) => unit) };
    offerColours();
    if (state.colour !== FLIPS) colourBefore = state.colour;
    change({ colour: "" });
    change({ colour: FLIPS });
    showFlips(found);
  } catch (problem) {
    fail(problem);
  } finally {
    bar.hidden = true;
  }
}

function showFlips({ answer, changes, flips }) {
  const by = model.flips.raw ? number : points;
  const chip = ({ unit, answer: then }) => {
    const text = `${isOpen(unit) ? "close" : "open"} ${nameOf(unit)}`;
    return make("button", { class: "chip", text, title: `then: ${then}, ${by(changes[unit])}`, onclick: () => toggle(unit) });
  };
  const strongest = changes.reduce((best, value, unit) => (Math.abs(value) > Math.abs(changes[best]) ? unit : best), 0);
  if (!flips.length) {
    const none = model.flips.raw ? "" : `No single click flips “${answer}”. `;
    const also = `${none}The strongest is ${nameOf(strongest)}, ${by(changes[strongest])}: `;
    byId("flips").replaceChildren(make("p", { text: also }), chip({ unit: strongest, answer }));
    return;
  }
  const sorted = [...flips].sort((a, b) => changes[a.unit] - changes[b.unit]);
  const count = flips.length === 1 ? "One click flips" : `${flips.length} single clicks flip`;
  const text = `${count} “${answer}”; the grid shows what each would do.`;
  const more = sorted.length > CHIPS ? ` and ${sorted.length - CHIPS} more` : "";
  byId("flips").replaceChildren(make("p", { text }), ...sorted.slice(0, CHIPS).map(chip), more);
}

// what was found holds for the text and the mask it was found with
function dropFlips() {
  stop("flips");
  byId("flips").replaceChildren();
  if (!model.flips) return;
  model.flips = null;
  offerColours();
  if (state.colour === FLIPS) change({ colour: colourBefore });
}

// ---- texts and examples

function fit(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`;
}

export function showTexts() {
  for (const [name, field] of Object.entries(fields)) {
    if (field.value !== state[name]) field.value = state[name];
    fit(field);
  }
  if (example && (example.first !== state.first || (example.second ?? "") !== state.second)) example = null;
  const from = example?.case === "all" ? example.dataset : example?.case;
  byId("gold").textContent = example ? `From “${from}”. The right answer: ${example.gold}.` : "";
}

export function take(found) {
  example = found;
  change({ first: found.first, second: found.second ?? "" });
  showTexts();
}

async function another(by) {
  const { dataset, case: name } = model.cases[byId("case").value] ?? {};
  if (!name) return;
  const same = example?.dataset === dataset && example.case === name && example.number !== undefined;
  await show(same ? (example.number + by + example.of) % example.of : 0);
}

async function show(number) {
  const { dataset, case: name } = model.cases[byId("case").value];
  try {
    const found = await ask("example", { place: state.place, dataset, case: name, number });
    if (found) take({ ...found, number });
    if (found) byId("counted").textContent = `${number + 1} of ${found.of}`;
  } catch (problem) {
    fail(problem);
  }
}

function offerCases() {
  const grouped = { "": [["", "choose a case"]] };
  model.cases.forEach(({ dataset, case: name }, i) => (grouped[dataset] ??= []).push([i, name === "all" ? dataset : name]));
  const before = byId("case").value;
  groups(byId("case"), grouped);
  byId("case").value = model.cases[before] ? before : "";
  byId("examples").hidden = !model.cases.length;
  byId("first-label").textContent = model.pair ? "First sentence" : "A sentence";
  byId("second-label").textContent = model.pair ? "Second sentence" : "A second one, if the model takes pairs";
  byId("second-text").hidden = model.pair === false;
}

// the first thing to see is an answer
export async function firstExample() {
  if (state.first || !model.cases.length) return;
  byId("case").value = model.begin.case;
  await show(model.begin.number);
}

const written = later(120, () => change({ first: fields.first.value, second: fields.second.value }));
for (const field of Object.values(fields)) {
  field.addEventListener("input", () => {
    fit(field);
    written();
  });
}
byId("case").addEventListener("change", () => another(1));
byId("next").addEventListener("click", () => another(1));
byId("before").addEventListener("click", () => another(-1));
byId("flip").addEventListener("click", searchFlips);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("textarea, input:not([type=radio], [type=range]), select")) return;
  if (event.key.toLowerCase() === "f") searchFlips();
  if (event.key.toLowerCase() === "n") another(1);
});
addEventListener("resize", () => Object.values(fields).forEach(fit));

on(["model"], offerCases);
on(["first", "second"], showTexts);
on(["mask", "first", "second", "ablate", "model"], dropFlips);
on(["mask", "first", "second", "ablate", "model"], answer);
