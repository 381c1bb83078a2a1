// A live game (see ui/play/live.py): its messages come in one long answer, what is held goes up in small posts.
import { base, brief, opened } from "../chunk.js";

export const SIGN_OF_LIFE = 500; // milliseconds; the game of a silent page waits, then the server gives the page up
export const COUNT = 3; // the numbers that count down to one's own game
export const BEAT = 700; // milliseconds of each

/**
 * Opens a live game and hands its messages over, one after the other, until no more come. Returns the server's sentence
 * where it refuses the game; what a browser says of a lost connection is meant for nobody who plays.
 * @param {string} path
 * @param {Record<string, any>} asked
 * @param {AbortSignal} stop ends the game: the server frees one whose answer nobody reads any longer
 * @param {(message: ReturnType<typeof opened>) => unknown} take
 * @returns {Promise<string>}
 */
export async function receive(path, asked, stop, take) {
  try {
    const answer = await fetch(`${base}${path}?${new URLSearchParams(asked)}`, { method: "POST", signal: stop });
    if (!answer.ok) return (await answer.json()).error;
    await read(answer.body.getReader(), stop, take);
  } catch {
    // the connection was lost, or the page has left the game
  }
  return "";
}

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

/**
 * Says what is held in a live game; null pauses it.
 * @param {string} id
 * @param {number} number of the message: one that a newer has overtaken counts for nothing
 * @param {string[] | null} held
 */
export function tell(id, number, held) {
  const told = new URLSearchParams({ id, n: String(number), ...(held && { held: held.join(".") }) });
  fetch(`${base}/arcade/live/keys?${told}`, { method: "POST", keepalive: true }).catch(() => {});
}

/**
 * How the agent does in a game that is not watched: its return so far, and whether that is all.
 * @param {Record<string, any> | URLSearchParams} asked
 * @returns {Promise<{ return?: number, over?: boolean, error?: string }>}
 */
export async function askRival(asked) {
  try {
    const answer = await fetch(`${base}/arcade/rival?${new URLSearchParams(asked)}`);
    return await answer.json();
  } catch {
    return { error: "The connection is lost." };
  }
}

const BETWEEN = { playing: 700, failed: 5000 }; // milliseconds from an answer to the next question

/**
 * Asks until the agent's game is over: it plays faster than anybody watches, but a long game takes a while.
 * @param {Record<string, any> | URLSearchParams} asked
 * @param {(rival: { return?: number, over?: boolean, error?: string }) => boolean} told returns whether to go on
 */
export async function followRival(asked, told) {
  for (;;) {
    const rival = await askRival(asked);
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
