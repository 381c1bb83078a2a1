// Live games. Of one that the server plays (see ui/play/sessions.py) the messages come in one long answer, what is held goes up
// in small posts; the static arcade plays them itself.
import { brief, opened } from "../chunk.js";
import { base } from "../gradio_internals.js";

/**
 * A chunk with its pictures, as they were packed or as something that draws them.
 * @typedef {{ header: any, data?: ArrayBuffer, paint?: import("../watch/position.js").Played["paint"] }} Message
 */

/** @typedef {{ return?: number, over?: boolean, error?: string }} Rival the agent's return so far, and whether that is all */

/**
 * Where live games are played.
 * @typedef {object} Arena
 * @property {(asked: Record<string, any>, stop: AbortSignal, take: (message: Message) => unknown) => Promise<string>} receive
 *   opens a game and hands its messages over, one after the other, until no more come or `stop` ends it; resolves to a
 *   sentence where the game is refused
 * @property {(id: string, number: number, held: string[] | null) => void} tell says what is held in a game; null pauses it. Of
 *   two messages the one with the higher number counts.
 * @property {(asked: Record<string, any> | URLSearchParams) => Promise<Rival>} askRival how the agent does in a game that is not
 *   watched
 * @property {string} patience what is said of a pause
 */

export const SIGN_OF_LIFE = 500; // milliseconds; the game of a silent page waits, then the server gives the page up
export const COUNT = 3; // the numbers that count down to one's own game
export const BEAT = 700; // milliseconds of each

/**
 * The server, which opens games at a path.
 * @param {string} path
 * @returns {Arena}
 */
export const onServer = (path) => ({
  async receive(asked, stop, take) {
    try {
      const answer = await fetch(`${base}${path}?${new URLSearchParams(asked)}`, { method: "POST", signal: stop });
      if (!answer.ok) return (await answer.json()).error;
      await read(answer.body.getReader(), stop, take); // the server frees a game whose answer nobody reads any longer
    } catch {
      // the connection was lost, or the page has left the game; what a browser says of it is meant for nobody who plays
    }
    return "";
  },

  tell(id, number, held) {
    const told = new URLSearchParams({ id, n: String(number), ...(held && { held: held.join(".") }) });
    fetch(`${base}/arcade/live/keys?${told}`, { method: "POST", keepalive: true }).catch(() => {});
  },

  async askRival(asked) {
    try {
      const answer = await fetch(`${base}/arcade/rival?${new URLSearchParams(asked)}`);
      return await answer.json();
    } catch {
      return { error: "The connection is lost." };
    }
  },

  patience: "The game waits for you for a minute.",
});

// Each message has its length in four bytes before it.
async function read(reader, stop, take) {
  let rest = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done || stop.aborted) return;
    const bytes = new Uint8Array(rest.length + value.length);
    bytes.set(rest);
    bytes.set(value, rest.length);
    let at = 0;
    while (bytes.length - at >= 4) {
      const length = new DataView(bytes.buffer).getUint32(at, true);
      if (bytes.length - at - 4 < length) break;
      await take(opened(bytes.slice(at + 4, at + 4 + length).buffer));
      at += 4 + length;
    }
    rest = bytes.slice(at);
  }
}

const BETWEEN = { playing: 700, failed: 5000 }; // milliseconds from an answer to the next question

/**
 * Asks until the agent's game is over: it plays faster than anybody watches, but a long game takes a while.
 * @param {Arena} arena
 * @param {Record<string, any> | URLSearchParams} asked
 * @param {(rival: Rival) => boolean} told returns whether to go on
 */
export async function followRival(arena, asked, told) {
  for (;;) {
    const rival = await arena.askRival(asked);
    if (!told(rival) || rival.over) return;
    await new Promise((wake) => setTimeout(wake, rival.error ? BETWEEN.failed : BETWEEN.playing));
  }
}

/**
 * Who won.
 * @param {number} mine
 * @param {number} agents
 */
export function verdict(mine, agents) {
  if (mine > agents) return `You beat the agent: ${brief(mine)} against ${brief(agents)}.`;
  return mine < agents ? `The agent won: ${brief(agents)} against your ${brief(mine)}.` : `A draw: both of you scored ${brief(mine)}.`;
}
