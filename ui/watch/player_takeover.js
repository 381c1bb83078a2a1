// Taking over: from the moment that is shown a visitor plays on, hands the controls back and takes them again, as often as
// is wanted. All of it is one live game (see ui/play/live.js); once it is finished, a game like any other, with a link.
import * as address from "../address.js";
import { brief, make } from "../chunk.js";
import { KEYS, makeHands } from "../play/hands.js";
import { BEAT, COUNT, SIGN_OF_LIFE, followRival, verdict } from "../play/live.js";
import { SHEET, share } from "../share.js";
import { query } from "./live.js";
import { alone } from "./player_rival.js";
import { forked } from "./position.js";
import { MOST_LETTERS, add, endOf, read, until, written } from "./takeovers.js";

const LEAD = 30; // steps before a takeover with which its link begins
const SPARE = 16; // letters that a step may add
const LOST = "The connection was lost; what you have played so far is kept.";
const PACES = [1, 0.5, 0.25]; // of which the server knows a live game's

/** @typedef {import("./position.js").Game} Game */

/**
 * @param {{ root: HTMLElement, picture: HTMLElement, canvas: HTMLCanvasElement, source: import("./position.js").Source, still: boolean,
 *   button: (label: string, text: string, act: () => void) => HTMLButtonElement, say: (sentence: string, milliseconds?: number) => void,
 *   begin: (game: Game, about: import("../chunk.js").About) => void, take: (game: Game, message: object) => void,
 *   fetchMore: () => void, nextStep: () => number, pace: () => number, unseen: () => boolean, here: AbortSignal,
 *   current: () => Game, choose: (game: Game) => void }} player
 */
export function makeTakeover({
  root, picture, canvas, source, still, button, say, begin, take, fetchMore, nextStep, pace, unseen, here, current, choose,
}) {
  const keyless = matchMedia("(hover: none)").matches; // a phone
  // --- The parts of the page ---

  const taking = make("div", "taking", "", { role: "group", "aria-label": "The controls of the game" });
  const grab = button("Take over: play on from here (T)", "Take over", toggle);
  grab.classList.add("grab");
  const rest = button("Pause (Escape)", "Pause", () => (session?.state === "paused" ? resume() : pause()));
  const done = button("Finish: the agent plays on, and you may look at it all", "Finish", () => finish());
  taking.append(grab, rest, done);
  taking.addEventListener("mousedown", (event) => session && event.preventDefault()); // the keys stay with the game
  const curtain = make("div", "curtain");
  const title = make("p", "title");
  const hint = make("p", "hint");
  curtain.append(title, hint);
  picture.append(curtain);
  const hands = makeHands({ changed: () => session?.state === "mine" && send(), touched: () => session?.state === "paused" && resume() });
  const result = make("div", "result");
  const boast = make("p", "boast");
  const copy = make("button", "copy", `${SHEET ? "Share" : "Copy"} the result and its link`, { type: "button" });
  result.append(boast, copy);

  // --- One visit at the controls ---

  /**
   * @typedef {object} Session
   * @property {import("../play/live.js").Arena} arena
   * @property {"counting" | "mine" | "agent" | "paused"} state
   * @property {"mine" | "agent"} after what it was before the pause
   * @property {import("./takeovers.js").Takeover[]} takeovers
   * @property {boolean} played whether the visitor has played a step
   * @property {{ id: string } | null} live what the server says of it
   */
  let session = /** @type {(Session & { game: Game, messages: number, stop: AbortController, timers: any[] }) | null} */ (null);
  let owner = /** @type {Game | null} */ (null); // the game that the visitor has finished here
  /** @type {{ game: Game, rival: { return?: number, over?: boolean, error?: string } } | null} */
  let compared = null;

  const arena = () => source.live?.(current().spec);
  const offered = () => Boolean(arena() && current().about?.controls);

  // Whether the visitor has the controls, or will have them after the countdown or the pause.
  const holding = () => Boolean(session) && (session.state === "paused" ? session.after : session.state) !== "agent";

  function toggle() {
    if (!session) return start();
    if (!holding()) return count();
    hands.drop();
    enter("agent");
  }

  function start() {
    const from = current();
    const first = nextStep();
    if (!offered() || from.want !== null) return;
    if (from.over && first >= from.steps.ends.length) return say("The game is over. Go back to a moment before its end first.");
    const percent = Math.min(from.about.controls.percent, 100 * (PACES.find((each) => each <= pace()) ?? 1));
    const takeovers = until(read(from.spec.takeovers), first);
    const game = forked(from, { ...from.spec, takeovers: written(takeovers), at: null }, first, true);
    from.playing = false;
    game.live = { from, first, pace: percent / 100 };
    game.playing = true;
    game.drawn = -1; // what stands beside the picture is drawn anew
    const stop = new AbortController();
    const mine = { arena: arena(), state: /** @type {const} */ ("counting"), after: /** @type {const} */ ("mine"), takeovers, played: false, live: null, game, messages: 0, stop, timers: [] };
    session = mine;
    owner = null;
    hands.lay(from.about.controls.buttons);
    choose(game);
    begin(game, game.about);
    canvas.focus({ preventScroll: true });
    count();
    const asked = Object.fromEntries(query(from.spec, { from: first, speed: percent }));
    const ended = (refused) => mine === session && finish(refused || LOST);
    mine.arena.receive(asked, stop.signal, (message) => hear(mine, message)).then(ended).catch(() => ended(LOST));
  }

  function hear(mine, message) {
    if (mine !== session) return;
    const { header } = message;
    if (header.ended) return finish(header.ended);
    if (header.live) {
      mine.live = header.live;
      mine.timers.push(setInterval(send, SIGN_OF_LIFE));
      return send();
    }
    if (header.by_hand[0]) {
      add(mine.takeovers, header.first, header.actions[0]);
      mine.game.spec.takeovers = written(mine.takeovers);
      mine.played = true;
    }
    take(mine.game, message);
    if (header.over) finish();
    else if (mine.game.spec.takeovers.length > MOST_LETTERS - SPARE) finish("Your game is as long as a link can hold, so the agent plays on.");
  }

  // From three to one, and on until the server has played the game up to here.
  function count(left = COUNT) {
    const mine = session;
    enter("counting");
    title.textContent = left > 0 ? String(left) : "Ready in a moment";
    clearTimeout(mine.timers[0]);
    mine.timers[0] = setTimeout(() => {
      if (mine !== session || mine.state !== "counting") return;
      if (left > 1 || !mine.live) count(Math.max(0, left - 1));
      else enter("mine");
    }, BEAT);
  }

  function pause() {
    if (!session || session.state === "paused") return;
    session.after = holding() ? "mine" : "agent";
    hands.drop();
    enter("paused");
    title.textContent = "Paused";
  }

  function resume() {
    canvas.focus({ preventScroll: true });
    if (holding()) count();
    else enter("agent");
  }

  function enter(state) {
    session.state = state;
    send();
    show();
  }

  function send() {
    if (!session?.live) return;
    const held = { mine: hands.held(), agent: ["agent"] }[session.state] ?? null;
    session.arena.tell(session.live.id, session.messages++, held);
  }

  // The server ends the game that nobody reads any longer. What was played is a game of its own, of which all comes anew;
  // where nothing was, the one before goes on.
  function finish(why = "") {
    if (!session) return;
    const { game, takeovers, played } = session;
    const { from, first } = game.live;
    const steps = game.steps.ends.length;
    leave();
    if (!played) {
      choose(from);
      begin(from, from.about);
      if (why) say(why);
      return fetchMore();
    }
    const made = { ...forked(from, { ...from.spec, takeovers: written(takeovers), at: null }, first), want: steps - 1, playing: !game.over && !still };
    Object.assign(made, { position: game.position, drawn: game.drawn });
    owner = made;
    choose(made);
    begin(made, made.about);
    const score = `You scored ${brief(game.steps.returns.at(-1))}.`;
    say([why, game.over ? score : ""].filter(Boolean).join(" "));
    fetchMore();
  }

  function leave() {
    if (!session) return;
    session.stop.abort();
    session.timers.forEach(clearInterval);
    session = null;
    hands.drop();
    show();
  }

  // --- What is shown of it ---

  function show() {
    const state = session?.state ?? "";
    root.dataset.hands = state;
    grab.textContent = holding() ? "Hand back" : "Take over";
    grab.title = holding() ? "Hand back: the agent plays on (T)" : "Take over: play on from here (T)";
    grab.setAttribute("aria-label", grab.title);
    taking.hidden = !offered();
    rest.textContent = state === "paused" ? "Continue" : "Pause";
    rest.hidden = done.hidden = !session;
    curtain.hidden = !["counting", "paused"].includes(state);
    hint.textContent = state === "counting" ? "" : session?.arena.patience ?? "";
    if (state === "counting") {
      const { keys, rule } = current().about.controls;
      hint.replaceChildren(make("span", "keys", `${keys} `), make("span", "touch", "Play with the buttons below. "), rule);
    }
    hands.thumbs.classList.toggle("offered", Boolean(session));
    result.hidden = !owner || owner !== current();
  }

  /** What is said while somebody has the controls. */
  function news() {
    const [hand, grip] = keyless ? ["", ""] : [" T hands them back to the agent.", " T takes them again."];
    if (session.state === "mine") return `You have the controls.${hand}`;
    return session.state === "agent" ? `The agent has the controls.${grip}` : "";
  }

  /** What is said at the end of a game that was taken over: how the agent alone does. */
  function ending() {
    const game = current();
    if (compared?.game !== game) {
      compared = { game, rival: {} };
      const mine = compared;
      followRival(arena(), query(alone(game.spec)), (rival) => {
        mine.rival = rival;
        if (compared === mine) tellResult();
        return compared === mine && root.isConnected;
      });
    }
    const { rival } = compared;
    if (rival.error || rival.return === undefined) return rival.error ?? "";
    if (!rival.over) return `The agent alone has ${brief(rival.return)} so far and is still playing.`;
    return owner === game ? verdict(game.steps.returns.at(-1), rival.return) : `The agent alone scored ${brief(rival.return)}.`;
  }

  function tellResult() {
    const game = owner;
    if (!game?.about) return;
    const { agent } = game.about;
    const [{ step }] = read(game.spec.takeovers);
    const where = `I took ${agent}'s game over at step ${step.toLocaleString("en")}`;
    const rival = compared?.game === game && compared.rival.over ? compared.rival.return : null;
    const mine = game.over && game.want === null ? game.steps.returns.at(-1) : null;
    if (mine === null) boast.textContent = `${where}:`;
    else if (rival === null) boast.textContent = `${where} and scored ${brief(mine)}:`;
    else if (mine > rival) boast.textContent = `I got further than the agent from step ${step.toLocaleString("en")} of ${agent}'s game: ${brief(mine)} against ${brief(rival)}:`;
    else boast.textContent = `${where} and scored ${brief(mine)}, the agent alone ${brief(rival)}:`;
  }

  copy.addEventListener("click", async () => {
    const { spec } = owner;
    const [{ step }] = read(spec.takeovers);
    const link = new URL(address.shared());
    link.search = String(query(spec, { at: Math.max(0, step - LEAD) }));
    const done = await share(link.href, boast.textContent);
    if (done === "copied") say("The result and its link are copied.");
    if (done !== "kept") return;
    boast.textContent += ` ${link.href}`;
    getSelection().selectAllChildren(boast);
    say("Copy the line that is selected below.");
  });

  /**
   * Marks what was played by hand, below a curve.
   * @param {CanvasRenderingContext2D} pen
   * @param {(step: number) => number} x
   */
  function draw(pen, x, height, ratio) {
    for (const takeover of read(current().spec.takeovers)) {
      const left = x(takeover.step);
      pen.fillRect(left, height - 3 * ratio, Math.max(ratio, x(endOf(takeover)) - left), 3 * ratio);
    }
  }

  // --- Keys ---

  root.addEventListener("keydown", (event) => {
    if (!session || event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    const onButton = /** @type {HTMLElement} */ (event.target).tagName === "BUTTON";
    if (onButton && [" ", "Enter"].includes(event.key)) return;
    event.stopPropagation(); // the player's own keys rest
    const word = KEYS[event.key];
    const key = event.key.toLowerCase();
    if (!word && !["t", "escape", "enter"].includes(key)) return;
    event.preventDefault();
    if (event.repeat) return;
    if (key === "t") toggle();
    else if (session.state === "paused") {
      if (!word || word === "fire") resume();
    } else if (key === "escape") pause();
    else if (word && session.state !== "agent") hands.press(word);
  }, { capture: true });
  root.addEventListener("keyup", (event) => KEYS[event.key] && hands.release(KEYS[event.key]));
  root.addEventListener("focusout", (event) => session?.state === "mine" && !root.contains(/** @type {Node | null} */ (event.relatedTarget)) && pause());
  window.addEventListener("blur", pause, { signal: here });
  document.addEventListener("visibilitychange", () => document.hidden && pause(), { signal: here });
  here.addEventListener("abort", leave);

  curtain.hidden = result.hidden = taking.hidden = true;
  return {
    taking,
    thumbs: hands.thumbs,
    result,
    toggle,
    leave,
    draw,
    /** @param {number} step */
    byHand: (step) => read(current().spec.takeovers).some((takeover) => takeover.step <= step && step < endOf(takeover)),
    news,
    ending,
    /** The game that the visitor has finished here. */
    finished: () => owner,
    /** Called with every picture. */
    at() {
      if (session && unseen()) pause();
      if (result.hidden !== (!owner || owner !== current())) show();
      if (!result.hidden) tellResult();
    },
    lay: show,
  };
}
