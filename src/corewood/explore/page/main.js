// Begins with what the address says, else with the full model and the first example; loads models as they are chosen.
import { ask, Refused } from "./api.js";
import { usePalette } from "./colour.js";
import { byId, choices, later } from "./dom.js";
import { address, change, forget, fromAddress, model, on, state, tell } from "./state.js";
import { firstExample, showTexts } from "./sentence.js";
import "./grid.js";
import "./presets.js";
import "./size.js";
import "./attention.js";
import "./cases.js";
import "./keep.js";

const STAND_INS = { mean: "its mean", zero: "nothing" };
const SLOW = 1; // seconds of an answer
let subject;

const notice = (text) => {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
};

const choiceOf = ({ task, tuning }) => subject.models.find((one) => one.task === task && one.tuning === tuning);

// the model of state.place; `wanted` is what to show of it
async function load(wanted = {}) {
  const place = state.place;
  document.body.classList.add("loading");
  notice(model.units ? "Loading the model …" : "");
  try {
    const found = await ask("model", { place });
    if (!found) return;
    const { steps, pair } = choiceOf(place);
    const units = found.units.layers * (found.units.heads + 1);
    Object.assign(model, found, { steps, pair, flips: null });
    const masks = [wanted.mask, state.mask].filter((mask) => mask?.length === units);
    if (state.mask.length !== units) forget();
    const fits = (head) => head && head[0] < found.units.layers && head[1] < found.units.heads;
    Object.assign(state, wanted, { place, mask: masks[0] ?? "1".repeat(units) });
    if (!fits(state.head)) state.head = null;
    if (!subject.stand_ins.includes(state.ablate)) state.ablate = subject.stand_ins[0];
    if (!found.colourings.some(({ name }) => name === state.colour)) state.colour = "";
    const slow = `This model takes about ${found.seconds.alone.toFixed(1)} s for one answer on this machine.`;
    notice(found.seconds.alone > SLOW ? `${slow} Cases are judged on a smaller sample.` : "");
    if (found.seconds.alone > SLOW) state.each = Math.min(state.each, 5);
    which();
    showTexts();
    tell("model");
    keepAddress();
    await firstExample();
  } catch (problem) {
    if (!(problem instanceof Refused)) throw problem;
    notice(problem.message);
  } finally {
    document.body.classList.remove("loading");
  }
}

// what the header says of the model
function which() {
  const { steps } = choiceOf(state.place);
  byId("which-model").hidden = subject.models.length < 2;
  byId("model").value = subject.models.indexOf(choiceOf(state.place));
  byId("training").hidden = steps.length < 2;
  byId("step").max = steps.length - 1;
  byId("step").value = steps.indexOf(state.place.step);
  byId("step").setAttribute("aria-valuetext", `step ${state.place.step}`);
  byId("step-now").textContent = `step ${state.place.step}${state.place.step === steps.at(-1) ? ", the last" : ""}`;
  byId("ablate").value = state.ablate;
}

byId("model").addEventListener("change", (event) => {
  const { task, tuning, steps } = subject.models[event.target.value];
  change({ place: { task, tuning, step: steps.at(-1) } });
});
byId("step").addEventListener("input", (event) => {
  byId("step-now").textContent = `step ${choiceOf(state.place).steps[event.target.value]}`;
});
byId("step").addEventListener("change", (event) => {
  change({ place: { ...state.place, step: choiceOf(state.place).steps[event.target.value] } });
});
byId("ablate").addEventListener("change", (event) => change({ ablate: event.target.value }));

let written = ""; // the address as this page left it: another one is a link that is being opened, and not written over
function writeAddress(to) {
  history.replaceState(null, "", to);
  written = location.hash;
}
const keepAddress = later(300, () => location.hash === written && writeAddress(address()));
addEventListener("hashchange", () => {
  written = location.hash;
  const wanted = fromAddress(location.hash);
  if (wanted.place && choiceOf(wanted.place)) {
    state.place = wanted.place;
    load(wanted);
  }
});

async function begin() {
  const wanted = fromAddress(location.hash);
  writeAddress(location.pathname + location.hash); // the token is in the cookie by now
  try {
    subject = await ask("subject", {});
  } catch (problem) {
    return notice(problem.message);
  }
  byId("title").textContent = subject.title;
  document.title = `${subject.title} · Corewood explore`;
  usePalette(subject.palette);
  choices(byId("model"), subject.models.map(({ name }, i) => [i, name]));
  choices(byId("ablate"), subject.stand_ins.map((kind) => [kind, STAND_INS[kind]]));
  byId("ablate").disabled = subject.stand_ins.length < 2;
  byId("ablate").title = subject.stand_ins.length < 2 ? "Without a study there are no texts to take a mean over" : "";
  const { task, tuning, steps } = subject.models[0];
  const there = wanted.place && choiceOf(wanted.place)?.steps.includes(wanted.place.step);
  state.place = there ? wanted.place : { task, tuning, step: steps.at(-1) };
  state.ablate = subject.stand_ins[0];
  await load(there ? wanted : {});
  on(["place"], () => load());
  on(["ablate"], () => (byId("ablate").value = state.ablate));
  on(Object.keys(state), keepAddress);
  document.body.dataset.ready = "";
}
begin();
