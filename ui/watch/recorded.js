// Games that were recorded as files (see ui/recordings/record.py): the chunks that a server would have sent, some to a file.
import { inflater } from "../chunk.js";
import { chunkOf } from "./position.js";

export const LOOK_NOTE =
  "Saliency map (Greydanus et al. 2018): the brighter a part of the picture, the more its choice, or its value, would change if that part were hidden.";

/**
 * A recorded game in the index.
 * @typedef {object} Recorded
 * @property {string} agent
 * @property {number} seed
 * @property {number} snapshot
 * @property {string} actions
 * @property {string} protocol
 * @property {string[]} files with the chunks, in order
 * @property {number} total the return as far as it is recorded
 * @property {number} steps
 * @property {boolean} whole whether the game is recorded to its end
 */

/**
 * What has come of a recorded game: its chunks, from how many of its files, and whoever fills it now.
 * @typedef {{ chunks: ArrayBuffer[], files: number, filled: Promise<boolean> }} Open
 */

/**
 * The chunks in a file: each has its length in four bytes before it, and all of them are packed together.
 * @param {ReadableStream<Uint8Array>} file
 * @returns {Promise<ArrayBuffer[]>}
 */
export async function split(file) {
  const bytes = await new Response(file.pipeThrough(inflater("gzip"))).arrayBuffer();
  const view = new DataView(bytes);
  const chunks = [];
  for (let at = 0; at < bytes.byteLength; ) {
    const length = view.getUint32(at, true);
    chunks.push(bytes.slice(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return chunks;
}

/**
 * The recorded game of a spec; what it leaves open may be any.
 * @param {Recorded[]} games
 * @param {import("./position.js").Spec} spec
 */
export const found = (games, spec) =>
  games.find((game) =>
    ["agent", "seed", "snapshot", "actions", "protocol"].every((part) => spec[part] === undefined || String(game[part]) === String(spec[part])));

/**
 * A function that keeps what it made of the latest keys: two games may be watched side by side.
 * @template Key, Value
 * @template {any[]} More
 * @param {(key: Key, ...more: More) => Value} made
 * @returns {(key: Key, ...more: More) => Value}
 */
export function latest(made, most = 2) {
  const kept = /** @type {Map<Key, Value>} */ (new Map());
  return (key, ...more) => {
    const value = kept.has(key) ? kept.get(key) : made(key, ...more);
    kept.delete(key);
    kept.set(key, value);
    if (kept.size > most) kept.delete(kept.keys().next().value);
    return value;
  };
}

/**
 * A source of recorded games, whose files lie in a directory.
 * @param {Recorded[]} games
 * @param {URL} directory
 * @returns {import("./position.js").Source}
 */
export function recordedGames(games, directory) {
  const open = latest(/** @type {(game: Recorded) => Open} */ (() => ({ chunks: [], files: 0, filled: Promise.resolve(true) })));

  // Fetches files until chunk `n` is there, if it is recorded. Resolves to whether none was missing.
  async function fill(mine, game, n, stop) {
    while (mine.chunks.length <= n && mine.files < game.files.length) {
      const answer = await fetch(new URL(game.files[mine.files], directory), { signal: stop });
      if (!answer.ok) return false;
      mine.chunks.push(...(await split(answer.body)));
      mine.files += 1;
    }
    return true;
  }

  return {
    ahead: Infinity,
    lookNote: `${LOOK_NOTE} The maps were made when the game was recorded, for its first minute or so.`,

    async chunk(spec, n, _ahead, stop) {
      const game = found(games, spec);
      if (!game) return { status: 404, error: "This game was not recorded. Choose another one." };
      const mine = open(game);
      mine.filled = mine.filled.catch(() => true).then(() => fill(mine, game, n, stop)); // one after the other
      if (!(await mine.filled)) return { status: 404, error: "A file of this game is missing." };
      const buffer = mine.chunks[n];
      if (buffer) return { status: 200, buffer };
      const cut = `The recording stops here, at step ${game.steps.toLocaleString("en")}; the game went on.`;
      return { status: 204, error: game.whole ? "" : cut };
    },

    async look(game, step) {
      const { looks } = game.chunks[chunkOf(game.chunks.map((chunk) => chunk.first), step)];
      return { status: 200, looks: { [step]: null, ...looks } };
    },
  };
}
