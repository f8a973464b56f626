// What the page asks of its server. A newer request of a kind ends the older one, here and there.
const tab = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
const under = new Map(); // kind -> AbortController

export class Refused extends Error {}

async function begin(kind, body) {
  stop(kind);
  const control = new AbortController();
  under.set(kind, control);
  const response = await fetch(`/api/${kind}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ tab, ...body }),
    signal: control.signal,
  });
  if (!response.ok) throw new Refused((await response.json()).error);
  return { response, control };
}

// nobody waits for it any more
export function stop(kind) {
  under.get(kind)?.abort();
  under.delete(kind);
}

// The answer, or null where a newer request has taken its place.
export async function ask(kind, body) {
  return quietly(kind, async () => {
    const { response } = await begin(kind, body);
    const found = await response.json();
    return found.superseded ? null : found;
  });
}

// The same, for what tells how far it is: one JSON object a line.
export async function follow(kind, body, progress) {
  return quietly(kind, async () => {
    const { response } = await begin(kind, body);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return null;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines.map((text) => JSON.parse(text))) {
        if (line.progress) progress(...line.progress);
        if (line.failed) throw new Refused(line.failed);
        if (line.superseded) return null;
        if (line.done) return line.done;
      }
    }
  });
}

async function quietly(kind, work) {
  try {
    return await work();
  } catch (problem) {
    if (problem.name === "AbortError") return null;
    if (problem instanceof Refused) throw problem;
    throw new Refused("The server does not answer: is it still running?");
  }
}
