// Games of a server: those that it has as files (see ui/recordings/routes.py), and those that it plays while they are
// watched (see ui/streaming/routes.py).
import { base } from "../gradio_internals.js";
import { onServer } from "../play/live.js";
import { LOOK_NOTE, found, latest, recordedGames } from "./recorded.js";
import { chunkOf } from "./position.js";

const USUAL = { seed: 0, snapshot: 100, protocol: "classic" }; // what a spec means that leaves it open

// Asked once; where no answer comes, all games are played.
const recordings = latest(async (/** @type {string} */ address) => {
  const directory = new URL(address, location.href);
  const games = await fetch(directory).then((answer) => (answer.ok ? answer.json() : [])).catch(() => []);
  return { games, files: recordedGames(games, directory) };
});

/**
 * A game as an address names it.
 * @param {import("./position.js").Spec} spec
 * @param {Record<string, any>} more
 */
export function query({ agent, seed, snapshot, actions, protocol, nudges, takeovers }, more = {}) {
  /** @type {Record<string, any>} */
  const named = { agent, seed, snapshot, actions, protocol, nudges: nudges || undefined, takeovers: takeovers || undefined, ...more };
  return new URLSearchParams(Object.entries(named).filter(([, value]) => value !== undefined));
}

const takeovers = onServer("/arcade/takeover");

/** @type {import("./position.js").Source} */
export const server = {
  ahead: 12,
  lookNote: `${LOOK_NOTE} Each map takes 145 passes through its network; the game waits for maps that are late.`,

  async chunk(spec, n, ahead, stop) {
    const whole = { ...USUAL, ...spec };
    const { games, files } = await recordings(`${base}/arcade/recordings/`);
    if (!spec.nudges && !spec.takeovers && found(games, whole)) {
      const kept = await files.chunk(whole, n, ahead, stop);
      if (kept.status !== 404) return kept; // its files may be another version's by now
    }
    const answer = await fetch(`${base}/arcade/chunk?${query(spec, { n, ahead })}`, { signal: stop });
    if (answer.status === 200) return { status: 200, buffer: await answer.arrayBuffer() };
    return answer.ok ? { status: answer.status } : { status: answer.status, error: (await answer.json()).error };
  },

  async look(game, step, most) {
    const n = chunkOf(game.chunks.map((chunk) => chunk.first), step);
    const place = { n, step: step - game.chunks[n].first, most };
    const answer = await fetch(`${base}/arcade/saliency?${query(game.spec, place)}`);
    return { status: answer.status, ...(await answer.json()) };
  },

  live: () => takeovers,
  video: (spec) => `${base}/arcade/video?${query(spec)}`,
  another: (element) => element.closest(".cabinet")?.querySelector("#watch-another") ?? null,
  gif: (spec, from) => `${base}/arcade/gif?${query(spec, { from })}`,
};
