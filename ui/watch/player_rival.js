// The agent alone: beside a game that was taken over, a smaller screen where the agent's own game goes on, in step with it.
import { brief, lay, make, opened, paint, unpacked, whenResized } from "../chunk.js";
import { query } from "./live.js";
import { append, chunkOf, firstAbove, forget, forked } from "./position.js";
import { read } from "./takeovers.js";

/** @param {import("./position.js").Ticket} ticket */
export const alone = (ticket) => ({ ...ticket, takeovers: "", at: null });

/**
 * @param {{ shot: HTMLElement, source: import("./position.js").Source, unseen: () => boolean, here: AbortSignal }} player
 */
export function makeRival({ shot, source, unseen, here }) {
  const figure = make("figure", "shot rival");
  const picture = make("div", "picture");
  const canvas = make("canvas", "", "", { role: "img" });
  const strip = make("figcaption", "strip");
  const note = make("span", "note");
  strip.append(make("span", "name", "The agent alone"), note);
  picture.append(canvas);
  figure.append(picture, strip);

  /** @type {import("./position.js").Game | null} */
  let game = null;
  let key = "";
  let drawn = -1;

  function open(from, ticket, first) {
    game = from.ticket.takeovers ? forked(from, ticket, first) : from;
    drawn = -1;
    figure.dataset.game = from.about.env;
    canvas.width = from.about.width;
    canvas.height = from.about.height;
    canvas.setAttribute("aria-label", `${from.about.env} played by ${from.about.agent} alone`);
  }

  /**
   * Follows the game that the player shows, at each of its pictures.
   * @param {import("./position.js").Game} main
   * @param {number} shown the picture
   */
  function follow(main, shown) {
    const [takeover] = read(main.ticket.takeovers);
    const from = main.live?.from ?? main;
    const first = main.live?.first ?? takeover?.step;
    const ticket = alone(main.ticket);
    const same = game !== null && key === String(query(ticket)); // it stays while the other comes anew
    const wanted = first !== undefined && (same || main.live || main.over || main.steps.ends.length >= first);
    if (!wanted) {
      figure.remove();
      game = null;
      return;
    }
    if (!figure.isConnected) shot.after(figure);
    if (!same) {
      key = String(query(ticket));
      open(from, ticket, takeover?.step ?? first);
      layPicture();
    }
    fetchMore(shown);
    const now = Math.min(shown, game.pictures - 1);
    if (now < 0 || now === drawn) return;
    drawn = now;
    draw(now);
    const returned = brief(game.steps.returns[firstAbove(game.steps.ends, now)]);
    note.textContent = `Return ${returned}${game.over && now < shown ? ", over" : ""}`;
  }

  // Its chunks come as the player's do, and no further than the player's own game is shown.
  async function fetchMore(shown) {
    const mine = game;
    const { rate } = mine.about;
    const ahead = Math.max(0, mine.pictures - shown);
    if (mine.fetching || mine.over || mine.failed || unseen() || ahead > source.ahead * rate) return;
    mine.fetching = true;
    try {
      const got = await source.chunk(mine.ticket, mine.chunks.length, Math.floor(ahead / rate));
      if (got.status === 200) {
        const { header, ...content } = got.played ?? opened(got.buffer);
        append(mine, header, content);
      } else if (got.status === 204) mine.over = true;
      else if (got.status !== 202 && got.status !== 503) mine.failed = true;
      else await new Promise((wake) => setTimeout(wake, 1000));
    } catch {
      await new Promise((wake) => setTimeout(wake, 1000)); // the connection is lost: the player says so
    } finally {
      mine.fetching = false;
    }
  }

  async function draw(now) {
    const mine = game;
    const index = chunkOf(mine.starts, now);
    const { data } = mine.chunks[index];
    const pictures = mine.decoded.get(index) ?? unpacked(data, mine.about.width * mine.about.height);
    mine.decoded.set(index, pictures);
    forget(mine.decoded, mine.chunks);
    const shown = await pictures;
    if (mine === game && drawn === now) paint(canvas, shown, now - mine.starts[index]);
  }

  function layPicture() {
    if (!game) return;
    const { width, height, pixel } = game.about;
    lay(picture, (width * pixel[1]) / (height * pixel[0]));
  }

  whenResized(figure, layPicture, here);
  return { follow };
}
