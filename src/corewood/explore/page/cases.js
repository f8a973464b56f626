// What is open on a sample of every case, beside the full model and the study's subnetworks, and the examples that flip.
import { follow, Refused, stop } from "./api.js";
import { byId, choices, later, make, many, percent } from "./dom.js";
import { take } from "./sentence.js";
import { asked, change, model, on, state } from "./state.js";

const SAMPLES = [5, 10, 20, 50, 100];
const PATIENCE = 60; // seconds: what takes longer waits to be asked for
let shown = null;
let only = ""; // the case whose examples are listed

const seconds = (each) => model.seconds.among * model.cases.reduce((sum, { n }) => sum + Math.min(n, each), 0);
const rounded = (time) => (time < 90 ? `${Math.ceil(time)} s` : `${Math.ceil(time / 60)} min`);
const inTime = (time) => (time < 1 ? "under a second" : `about ${rounded(time)}`);

function offer() {
  byId("cases-card").hidden = !model.cases.length;
  if (!model.cases.length) return;
  choices(byId("each"), SAMPLES.map((each) => [each, `${each} of each case, ${inTime(seconds(each))}`]), state.each);
  shown = null;
  only = ""; // another task has other cases
  byId("cases").tBodies[0].replaceChildren();
}

const slow = () => seconds(state.each) > PATIENCE;
const soon = later(450, () => judge());

function outdated() {
  stop("cases");
  if (!model.cases?.length) return;
  byId("cases").classList.add("old");
  byId("judge").hidden = !slow();
  byId("cases-state").textContent = slow() ? `${inTime(seconds(state.each))} with this model: press Judge, or choose fewer` : "";
  if (!slow()) soon();
}

async function judge() {
  const bar = byId("cases-progress");
  bar.value = 0;
  bar.classList.add("busy");
  byId("cases-state").textContent = "judging …";
  try {
    const found = await follow("cases", { ...asked(), each: state.each }, (done, total) => {
      bar.value = done / total;
      byId("cases-state").textContent = `${done} of ${many(total, "text")}`;
    });
    if (!found) return;
    shown = found;
    byId("cases-state").textContent = `${many(found.texts, "text")} judged`;
    byId("judge").hidden = true;
    show();
  } catch (problem) {
    if (!(problem instanceof Refused)) throw problem;
    byId("cases-state").textContent = problem.message;
  }
  bar.classList.remove("busy");
}

const keyOf = ({ dataset, case: name }) => JSON.stringify([dataset, name]);

// of a case: those listed are some of them
const flipsOf = (found) => shown.flips.find((flip) => keyOf(flip) === keyOf(found))?.among ?? 0;

function dot(kind, share, title) {
  const made = make("i", { class: `dot ${kind}`, title });
  made.style.left = `${100 * share}%`;
  return made;
}

function row(found) {
  const { dataset, case: name, full, now, others, n } = found;
  const called = name === "all" ? dataset : name;
  const changed = now - full;
  const beside = Object.entries(others).map(([who, share]) => dot("other", share, `${who}: ${percent(share)}`));
  const own = [dot("full", full, `full model: ${percent(full)}`), dot("now", now, `what is open: ${percent(now)}`)];
  const track = make("div", { class: "track" }, ...beside, ...own);
  const span = make("i", { class: "span" });
  span.style.left = `${100 * Math.min(full, now)}%`;
  span.style.width = `${100 * Math.abs(changed)}%`;
  track.prepend(span);
  const chosen = only === keyOf(found);
  const title = `${many(n, "example")}; ${flipsOf(found)} flipped. Click for those`;
  const choose = () => {
    only = chosen ? "" : keyOf(found);
    show();
  };
  const button = make("button", { class: "case", text: called, "aria-pressed": chosen, title, onclick: choose });
  const kind = changed < -0.095 ? "lost" : changed > 0.095 ? "gained" : "";
  const shares = [make("td", { text: percent(full) }), make("td", { class: "now", text: percent(now) })];
  const cells = [make("td", { class: "wide" }, track), ...shares];
  return make("tr", { class: `${kind}${chosen ? " chosen" : ""}` }, make("th", { scope: "row" }, button), ...cells);
}

function show() {
  if (!shown) return;
  byId("cases").classList.remove("old");
  byId("cases").tBodies[0].replaceChildren(...shown.cases.map(row));
  byId("key-others").hidden = !shown.cases.some(({ others }) => Object.keys(others).length);
  const rows = shown.flips.filter((one) => !only || keyOf(one) === only);
  const total = shown.cases.filter((one) => !only || keyOf(one) === only).reduce((sum, one) => sum + flipsOf(one), 0);
  const where = only ? ` of “${JSON.parse(only)[1] === "all" ? JSON.parse(only)[0] : JSON.parse(only)[1]}”` : "";
  byId("flipped-title").textContent = total ? `${many(total, "example")}${where} flipped` : `No example${where} flipped`;
  const sorted = only ? rows : spread(rows);
  byId("flipped-examples").replaceChildren(...sorted.slice(0, 24).map(item));
}

// the first of every case, then the second of every case, ...
function spread(rows) {
  const places = new Map();
  const order = rows.map((one) => {
    const place = places.get(keyOf(one)) ?? 0;
    places.set(keyOf(one), place + 1);
    return [place, one];
  });
  return order.sort((a, b) => a[0] - b[0]).map(([, one]) => one);
}

function item(found) {
  const { dataset, case: name, example, first, second, gold, full, now } = found;
  const says = (who, { answer, chance }) => {
    const right = answer === gold;
    const said = make("dd", { text: `${right ? "✓" : "✗"} ${answer} ${percent(chance)}` });
    return make("div", { class: right ? "right" : "wrong" }, make("dt", { text: who }), said);
  };
  const texts = [first, second].filter((text) => text !== undefined).map((text) => make("span", { class: "text", text }));
  const button = make("button", { class: "example", title: "Look at this example",
    onclick: () => {
      take(found);
      byId("sentence-card").scrollIntoView({ behavior: "smooth", block: "nearest" });
    } }, make("span", { class: "where", text: `${name === "all" ? dataset : `${name} · ${dataset}`} ${example}` }), ...texts);
  return make("li", {}, button, make("dl", {}, says("full model", full), says("what is open", now)));
}

byId("judge").addEventListener("click", judge);
byId("each").addEventListener("change", (event) => change({ each: Number(event.target.value) }));
on(["model"], offer);
on(["mask", "ablate", "each", "model"], outdated);
