// How large what is open is: units, parameters, and milliseconds on the text, measured.
import { ask, Refused, stop } from "./api.js";
import { byId, later } from "./dom.js";
import { asked, hasText, model, on, texts } from "./state.js";

const millions = (count) => (count >= 1e6 ? `${(count / 1e6).toFixed(1)} M` : `${(count / 1e3).toFixed(1)} k`);
const share = (part) => `${Math.round(100 * part)} %`;
const time = (ms) => (ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${ms.toFixed(1)} ms`);

async function count() {
  const found = await quietly(ask("size", asked()));
  if (!found) return;
  const { layers, heads } = model.units;
  byId("size-units").textContent = `${found.units} of ${layers * (heads + 1)}`;
  byId("size-heads").textContent = `${found.heads} heads, ${found.mlps} MLPs`;
  byId("size-parameters").textContent = millions(found.encoder_parameters);
  const whole = `with embeddings ${millions(found.all_parameters)}`;
  byId("size-all").textContent = `${share(found.encoder_share)} of ${millions(model.units.encoder_parameters)}; ${whole}`;
}

// once clicks have paused: it takes a few runs
const measure = later(350, async () => {
  if (!hasText()) return show("–", "");
  const found = await quietly(ask("speed", { ...asked(), ...texts() }));
  if (!found) return;
  show(time(found.now), `the full model: ${time(found.full)}`);
});

function show(now, full) {
  byId("size-time").textContent = now;
  byId("size-full").textContent = full;
}

async function quietly(answer) {
  try {
    return await answer;
  } catch (problem) {
    if (!(problem instanceof Refused)) throw problem;
    return null; // the answer itself tells what is wrong
  }
}

on(["mask", "model"], count);
on(["mask", "first", "second", "ablate", "model"], () => {
  stop("speed");
  measure();
});
