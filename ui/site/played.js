// Games that are played in the visitor's tab: in chunks for a player, and live by hand.

import { latest } from "../watch/recorded.js";
import { read, until, written } from "../watch/takeovers.js";
import { RULES, begun, play, replayed, stepsOf, tensorsOf } from "./simulation.js";

/**
 * What the index says of an agent that can be played here; its recording tells the rest of the game.
 * @typedef {{ weights: Record<string, string>, shift: number, scale: number, about: import("../chunk.js").About }} Playable
 */

/** @typedef {ReturnType<typeof tensorsOf>} Tensors */

const SECONDS_OF_FIRST = 0.5; // of a chunk; the others are of one
const MISSING = "The agent's weights could not be fetched. Please try again.";

/**
 * A source that plays the games of some agents in the tab, and takes the others' from another source.
 * @param {Record<string, Playable>} agents
 * @param {URL} directory of their weights
 * @param {import("../watch/position.js").Source} others
 * @returns {import("../watch/position.js").Source}
 */
export function playedHere(agents, directory, others) {
  const fetched = /** @type {Map<string, Promise<Tensors>>} */ (new Map());

  function tensorsOfAgent({ agent, snapshot }) {
    const file = agents[agent].weights[snapshot];
    const load = async () => {
      const answer = await fetch(new URL(file, directory));
      if (!answer.ok) throw new Error("the weights are missing");
      return tensorsOf(await answer.arrayBuffer());
    };
    if (!fetched.has(file)) fetched.set(file, load());
    return fetched.get(file).catch((error) => (fetched.delete(file), Promise.reject(error)));
  }

  const whole = latest((/** @type {string} */ key, /** @type {Tensors} */ tensors) => {
    const [agent, seed, snapshot, nudges, takeovers] = JSON.parse(key);
    const about = { ...agents[agent].about, seed, snapshot, nudges, takeovers };
    return cut(play(about.env, tensors, seed, nudges, takeovers), about, teller(agents[agent], tensors));
  });

  async function chunksOf(spec) {
    const { agent, seed, snapshot, nudges = "", takeovers = "" } = spec;
    return whole(JSON.stringify([agent, Number(seed), Number(snapshot), nudges, takeovers]), await tensorsOfAgent(spec));
  }

  const isHere = (spec) => Boolean(spec.actions === "greedy" && agents[spec.agent]?.weights[spec.snapshot]);
  const live = liveHere(agents, tensorsOfAgent, chunksOf);

  return {
    ...others,

    live: (spec) => (isHere(spec) ? live : null),

    async chunk(spec, n, ahead, stop) {
      if (!isHere(spec)) return others.chunk(spec, n, ahead, stop);
      const played = (await chunksOf(spec))[n];
      return played ? { status: 200, played } : { status: 204, error: "" };
    },
  };
}

/**
 * A game in chunks, as the server would cut it; instead of pictures each knows how to draw them.
 * @param {ReturnType<typeof play>} game
 * @param {import("../chunk.js").About} about
 * @param {ReturnType<typeof teller>} tell
 * @returns {import("../watch/position.js").Played[]}
 */
function cut({ begin, steps }, about, tell) {
  const states = [begin, ...steps.map(({ state }) => state)];
  const chunks = [];
  for (let first = 0; first < steps.length; ) {
    const start = first ? first + 1 : 0; // the first step shows the beginning too
    const length = Math.round(about.rate * (first ? 1 : SECONDS_OF_FIRST)) - (first ? 0 : 1);
    const part = steps.slice(first, first + length);
    const header = { ...(first ? {} : { game: about }), ...tell(part, first) };
    if (!first) header.pictures[0] = 2;
    chunks.push({ header, paint: painter(about.env, states.slice(start)) });
    first += part.length;
  }
  return chunks;
}

/**
 * What makes the head of a chunk, from steps with a picture each.
 * @param {Playable} agent
 * @param {Tensors} tensors
 */
function teller({ about, shift, scale }, tensors) {
  const deviation = [...(tensors["policy.log_std"]?.values ?? [])].map(Math.exp);
  return (/** @type {import("./simulation.js").Step[]} */ steps, /** @type {number} */ first) => ({
    first,
    over: steps.at(-1).over,
    pictures: steps.map(() => 1),
    actions: steps.map(({ action }) => action),
    policies: steps.map(({ head }) => (about.actions ? softmax(head) : [...head, ...deviation])),
    values: steps.map(({ value }) => value / scale - shift),
    rewards: steps.map(({ reward }) => reward),
  });
}

const painter = (env, states) => (/** @type {HTMLCanvasElement} */ canvas, /** @type {number} */ index) => {
  const pen = canvas.getContext("2d");
  pen.resetTransform();
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  RULES[env].draw(pen, states[index]);
  pen.resetTransform();
};

function softmax(logits) {
  const most = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}

// --- Live games (see ui/play/sessions.py and ui/play/taken.py) ---

/**
 * Chooses a step's action from what is held and from what was pressed since the step before (see ui/play/controls.py).
 * @param {string[]} actions
 */
export function makePad(actions) {
  let held = /** @type {string[]} */ ([]);
  let tapped = /** @type {string[]} */ ([]);
  let last = 0;
  return {
    /** @param {string[]} words */
    hold(words) {
      tapped.push(...words.filter((word) => !held.includes(word)));
      held = words;
    },
    handedBack: () => held.includes("agent"),
    action() {
      const pressed = [...held, ...tapped].reverse().find((word) => actions.includes(word));
      tapped = [];
      if (pressed !== undefined) last = actions.indexOf(pressed);
      return last;
    },
  };
}

/**
 * Where live games are played: here. One that is taken over begins with what was played before; one's own has no step of
 * the agent's.
 * @param {Record<string, Playable>} agents
 * @param {(spec: any) => Promise<Tensors>} tensorsOfAgent
 * @param {(spec: any) => Promise<import("../watch/position.js").Played[]>} chunksOf
 * @returns {import("../play/live.js").Arena}
 */
function liveHere(agents, tensorsOfAgent, chunksOf) {
  const hands = /** @type {Map<string, (held: string[] | null) => void>} */ (new Map());
  let opened = 0;

  async function receive(asked, stop, take) {
    let tensors;
    try {
      tensors = await tensorsOfAgent(asked);
    } catch {
      return MISSING;
    }
    const { about } = agents[asked.agent];
    const { seed, nudges = "", takeovers = "", from, speed } = asked;
    const pad = makePad(about.actions);
    const first = Number(from ?? 0);
    const before = replayed(written(until(read(takeovers), first)));
    let byHand = false;
    const steps = stepsOf(about.env, tensors, Number(seed), nudges, (step) => {
      if (step < first) return before(step);
      byHand = !pad.handedBack();
      return byHand ? pad.action() : undefined;
    });
    for (let step = 0; step < first; step++) steps.next();

    const id = String(++opened);
    let paused = true;
    hands.set(id, (held) => {
      paused = held === null;
      if (held) pad.hold(held);
    });
    if (from === undefined) await take(opening({ ...about, seed: Number(seed) }, id));
    else await take({ header: { live: { id } } });

    const tell = teller(agents[asked.agent], tensors);
    const beat = 100_000 / (about.rate * Number(speed)); // milliseconds of a step
    let due = performance.now();
    for (let number = first, over = false; !over; ) {
      due = Math.max(due, performance.now() - beat) + beat; // a clock that is late runs on, it does not race
      await new Promise((wake) => setTimeout(wake, due - performance.now()));
      if (stop.aborted) break;
      if (paused) continue;
      const step = /** @type {import("./simulation.js").Step} */ (steps.next().value);
      over = step.over;
      await take({ header: { ...tell([step], number++), by_hand: [byHand] }, paint: painter(about.env, [step.state]) });
    }
    hands.delete(id);
    return "";
  }

  return {
    receive,
    tell: (id, _number, held) => hands.get(id)?.(held),
    async askRival(asked) {
      const spec = asked instanceof URLSearchParams ? Object.fromEntries(asked) : asked;
      try {
        const headers = (await chunksOf(spec)).map(({ header }) => header);
        return { return: headers.flatMap(({ rewards }) => rewards).reduce((a, b) => a + b, 0), over: true };
      } catch {
        return { error: MISSING };
      }
    },
    patience: "The game waits for you.",
  };
}

// The message before the first step of one's own game: what it is, and its picture.
function opening(about, id) {
  const header = { game: { ...about, id }, first: 0, over: false, pictures: [1], actions: [-1], policies: [[]], values: [0], rewards: [0] };
  return { header, paint: painter(about.env, [begun(RULES[about.env], about.seed)]) };
}
