// Masks to begin with: the full model, what the study found, the core, what was saved, two of them together, chance.
import { byId, choices, groups, many } from "./dom.js";
import { heads, model, on, setMask, state } from "./state.js";

const FULL = "full model";
const MINE = "as it is";
const select = byId("preset");

const full = () => "1".repeat(state.mask.length);
const every = () => [{ name: FULL, group: "", mask: full(), about: "nothing is closed" }, ...model.presets, ...model.saved];
const label = ({ name, about, group }) => (about && group !== "core" && group !== "" ? `${name} (${about})` : name);

function offer() {
  const grouped = { "": [["", MINE]] };
  every().forEach((one, place) => (grouped[one.group] ??= []).push([place, label(one)]));
  groups(select, grouped);
  const names = every().map((one, place) => [place, one.name]);
  choices(byId("one"), names, Math.min(1, names.length - 1));
  choices(byId("other"), names, Math.min(2, names.length - 1));
  byId("combining").hidden = names.length < 2;
  recognise();
}

// a mask that has a name is called by it
function recognise() {
  const all = every();
  const chosen = all[select.value];
  const here = (one) => one.mask === state.mask;
  const place = chosen && here(chosen) ? Number(select.value) : all.findIndex(here);
  select.value = place < 0 ? "" : place;
  byId("preset-about").textContent = place < 0 ? "" : all[place].group === "core" || !place ? all[place].about : "";
}

select.addEventListener("change", () => {
  const one = every()[select.value];
  if (!one) return;
  const last = model.presets.includes(one) ? model.steps.at(-1) : state.place.step; // where a study's own does not say
  const place = { ...state.place, step: one.step ?? last };
  setMask(one.mask, { place, ablate: one.ablate ?? state.ablate });
});

// as many heads and as many MLPs as are open now
function drawn(part) {
  const units = [...part];
  for (let i = units.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [units[i], units[j]] = [units[j], units[i]];
  }
  return units.join("");
}
byId("random").addEventListener("click", () => {
  const [ours, mlps] = [state.mask.slice(0, heads()), state.mask.slice(heads())];
  setMask(drawn(ours) + drawn(mlps));
  const open = (part) => [...part].filter((unit) => unit === "1").length;
  byId("preset-about").textContent = `${many(open(ours), "head")} and ${many(open(mlps), "MLP")}, drawn by chance`;
});

const HOW = {
  both: (one, other) => one && other,
  either: (one, other) => one || other,
  only: (one, other) => one && !other,
  other: (one, other) => !one && other,
  differ: (one, other) => one !== other,
};
byId("combine").addEventListener("click", () => {
  const [one, other] = [byId("one"), byId("other")].map((choice) => every()[choice.value]);
  const how = HOW[byId("how").value];
  setMask([...one.mask].map((unit, i) => (how(unit === "1", other.mask[i] === "1") ? "1" : "0")).join(""));
  byId("preset-about").textContent = `${byId("how").selectedOptions[0].text}: ${one.name}, ${other.name}`;
});

export function remember(preset) {
  model.saved.push(preset);
  offer();
}

on(["model"], offer);
on(["mask"], recognise);
