// What colours the grid: a colouring of the study, the change that a click would make, or nothing but open and closed.
import { follow, Refused, stop } from "./api.js";
import { byId, groups, make, number, percent, sign } from "./dom.js";
import { asked, change, model, on, state } from "./state.js";

export const FLIPS = "what a click would change";
const darkness = matchMedia("(prefers-color-scheme: dark)");
let palette = { greens: [], diverging: [], lines: [], dark: {} };
let computed = {}; // name -> values of what was asked for when first needed

export const isDark = () => darkness.matches;
export function usePalette(found) {
  palette = found;
}
export const shade = (colour, dark = isDark()) => (dark ? (palette.dark[colour] ?? colour) : colour);
export const line = (place, dark) => shade(palette.lines[place % palette.lines.length], dark);

const parse = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

// 0 to 1 along some colours
function between(colours, share, dark = isDark()) {
  const stops = colours.map((colour) => parse(shade(colour, dark)));
  const at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const [low, part] = [Math.min(Math.floor(at), stops.length - 2), at % 1 || (at === stops.length - 1 ? 1 : 0)];
  const mixed = stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * part));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

export const green = (share, dark) => between(palette.greens, share, dark);

// The colouring that is chosen, with its numbers; null where units are plainly open or closed.
export function colouring() {
  if (state.colour === FLIPS) return model.flips ?? null;
  const found = model.colourings?.find((one) => one.name === state.colour);
  if (!found) return null;
  const values = found.values ?? computed[found.name];
  return values ? { ...found, values } : null;
}

function scaleOf({ kind, values }) {
  const numbers = values.filter((value) => typeof value === "number").map(Math.abs);
  return kind === "share" ? 1 : Math.max(...numbers, 1e-9);
}

// unit -> colour, or null where nothing is known of it
export function tones(found, dark = isDark()) {
  const most = found.kind === "named" ? 1 : scaleOf(found);
  const names = [...new Set(found.values.filter((value) => value !== null))].sort();
  return found.values.map((value) => {
    if (value === null) return null;
    if (found.kind === "named") return value === "spread out" ? shade("#9aa59e", dark) : line(names.indexOf(value), dark);
    if (found.kind === "signed") return between(palette.diverging, 0.5 + value / most / 2, dark);
    return green(0.12 + (0.88 * value) / most, dark);
  });
}

export function inWords({ kind, values, points, raw }, unit) {
  const value = values[unit];
  if (value === null || value === undefined) return "not known";
  if (typeof value === "string") return value;
  if (kind === "share") return percent(value);
  if (raw) return number(value);
  if (points || kind === "signed") return `${sign(value)}${(100 * Math.abs(value)).toFixed(1)} points`;
  return value.toPrecision(3);
}

// what stands below the grid, and in its picture: [colour, text] and a scale's ends
export function legend(found, dark = isDark()) {
  if (!found) return { says: "", steps: [] };
  const most = scaleOf(found);
  if (found.kind === "named") {
    const all = tones(found, dark);
    const steps = new Map(found.values.map((value, unit) => [value, all[unit]]).filter(([value]) => value !== null));
    const sorted = [...steps].map(([text, colour]) => [colour, text]).sort((a, b) => (a[1] < b[1] ? -1 : 1));
    return { says: found.says, steps: sorted };
  }
  const signed = found.kind === "signed";
  const marks = signed ? [-1, -0.5, 0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  const colours = tones({ ...found, values: marks.map((mark) => mark * most) }, dark);
  const ends = signed ? [0, 2, 4] : [0, 4];
  const said = (mark, i) => (ends.includes(i) ? inWords({ ...found, values: [mark * most] }, 0) : "");
  return { says: found.says, steps: marks.map((mark, i) => [colours[i], said(mark, i)]), scale: true };
}

function showLegend() {
  const { says, steps, scale } = legend(colouring());
  const swatch = ([colour, text]) => {
    const mark = make("i");
    mark.style.background = colour;
    return make("span", {}, mark, text);
  };
  const open = make("span", { class: "shape" }, make("i", { class: "open" }), "open");
  const closed = make("span", { class: "shape" }, make("i", { class: "closed" }), "closed");
  const parts = says ? [make("p", { text: says }), make("div", { class: scale ? "scale" : "names" }, ...steps.map(swatch))] : [];
  byId("legend").replaceChildren(make("div", { class: "shapes" }, open, closed), ...parts);
}

// some are computed when first asked for
async function fetchValues() {
  const found = model.colourings?.find((one) => one.name === state.colour);
  if (!found || found.values || computed[found.name]) return;
  const tell = (done, total) => (byId("legend").textContent = `Computing: ${done} of ${total} examples`);
  try {
    const made = await follow("importance", asked(), tell);
    if (made) computed[found.name] = made.values;
    all.forEach((draw) => draw());
  } catch (problem) {
    if (!(problem instanceof Refused)) throw problem;
    byId("legend").textContent = problem.message;
  }
}

const all = []; // who draws in these colours
export const onColours = (draw) => all.push(draw);

export function offer() {
  const grouped = { "": [["", "open and closed"]] };
  for (const { name, group } of model.colourings) (grouped[group] ??= []).push([name, name]);
  if (model.flips) grouped["this text"] = [[FLIPS, FLIPS]];
  groups(byId("colour"), grouped);
  byId("colour").value = state.colour;
  if (byId("colour").selectedIndex < 0) byId("colour").value = "";
}

byId("colour").addEventListener("change", (event) => change({ colour: event.target.value }));
darkness.addEventListener("change", () => all.forEach((draw) => draw()));
onColours(showLegend);
on(["model", "ablate"], () => {
  stop("importance"); // what it was asked for is another model's, or of another stand-in
  computed = {};
  offer();
  all.forEach((draw) => draw());
  fetchValues();
});
on(["colour"], () => {
  if (byId("colour").value !== state.colour) byId("colour").value = state.colour;
  all.forEach((draw) => draw());
  fetchValues();
});
