// The game that a visitor plays. The value says which game, which seed, how fast.
import * as address from "../address.js";
import { makeBoard } from "../board/board.js";
import { brief, lay, make, paint, unpacked, whenResized, whileConnected } from "../chunk.js";
import { SHEET, share } from "../share.js";
import { add, written } from "../watch/takeovers.js";
import { KEYS, makeHands } from "./hands.js";
import { BEAT, COUNT, SIGN_OF_LIFE, followRival, onServer, verdict } from "./live.js";

const RIVAL = 15000; // milliseconds between questions how the agent does while the visitor plays

/**
 * @param {import("../chunk.js").Host} host
 * @param {import("./live.js").Arena} arena
 */
export function mount({ element, props, watch, trigger }, arena = onServer("/arcade/live")) {
  if (!element.isConnected) return;
  const here = whileConnected(element);
  const root = /** @type {HTMLElement} */ (element.querySelector(".human"));

  // --- The parts of the page ---

  const shot = make("figure", "shot");
  const screen = make("div", "picture");
  const canvas = make("canvas", "", "", { tabindex: 0, role: "application" });
  const curtain = make("div", "curtain");
  const title = make("p", "title");
  const go = make("button", "go", "Start", { type: "button" });
  const hint = make("p", "hint");
  const keys = make("span", "keys");
  const rule = make("span", "");
  hint.append(keys, make("span", "touch", "Play with the buttons below. "), rule);
  curtain.append(title, go, hint);
  screen.append(canvas, curtain);
  const strip = make("figcaption", "strip");
  const name = make("span", "name");
  const note = make("span", "note");
  strip.append(name, note);
  shot.append(screen, strip);
  const hands = makeHands({
    changed: () => game.state === "playing" && send(),
    touched: () => ["paused", "ready"].includes(game.state) && act(),
  });
  const status = make("p", "said", "", { role: "status" });
  const result = make("div", "result");
  const boast = make("p", "boast");
  const copy = make("button", "copy", `${SHEET ? "Share" : "Copy"} the result and its link`, { type: "button" });
  result.append(boast, copy);
  const board = makeBoard({ here });
  root.append(shot, hands.thumbs, status, result, board.form, board.part);

  // --- A match: from the choice of a game to its end ---

  let match = props.value;
  let game = fresh();

  function fresh() {
    return { state: "ready", about: null, score: 0, over: false, messages: 0, played: [], stop: new AbortController(), timers: [] };
  }

  function open(value) {
    if (!value?.play) return;
    const starting = ["opening", "counting"].includes(game.state);
    leave();
    match = value;
    address.tell("play", named(match));
    shot.dataset.game = match.env;
    layPicture();
    canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
    canvas.setAttribute("aria-label", `${match.name}, played by you. ${match.keys} Escape pauses. ${match.rule}`);
    name.textContent = `You, seed ${match.seed}${match.pace}`;
    note.textContent = "Score 0";
    result.hidden = true;
    board.show(match.agent ? match.env : "", match.seed);
    hands.lay(match.buttons);
    keys.textContent = `${match.keys} Escape pauses. `;
    rule.textContent = match.rule;
    say("");
    draw("ready", match.name, "Start");
    trigger("begin");
    if (starting) start();
  }

  // Whatever is under way ends: the server frees a game whose answer nobody reads any longer.
  function leave() {
    game.stop.abort();
    game.timers.forEach(clearInterval);
    hands.drop();
    board.offer("");
    game = fresh();
  }

  async function start() {
    leave();
    const mine = game;
    mine.state = "opening";
    result.hidden = true;
    trigger("begin");
    canvas.focus({ preventScroll: true });
    draw("opening", "Get ready", "");
    say("");
    const { play, seed, speed } = match;
    const refused = await arena.receive({ play, seed, speed }, mine.stop.signal, (message) => take(mine, message));
    if (mine !== game || mine.over) return;
    fail(mine, refused || (mine.about ? "The connection was lost, and your game with it." : "The server cannot be reached. Please try again."));
  }

  async function take(mine, { header, ...content }) {
    if (mine !== game) return;
    if (header.ended) return finish(mine, header.ended);
    if (header.game) begin(mine, header.game);
    await show(mine, header, content);
    if (mine !== game) return;
    mine.score += header.rewards[0];
    if (!header.game) add(mine.played, header.first - 1, header.actions[0]);
    note.textContent = `Score ${brief(mine.score)}`;
    if (header.over) finish(mine, "");
  }

  function layPicture() {
    if (!match?.env) return;
    if (match.env.startsWith("ALE/")) lay(screen, 4 / 3, [160, 210]);
    else lay(screen, 3 / 2);
  }

  function begin(mine, about) {
    mine.about = about;
    canvas.width = about.width;
    canvas.height = about.height;
    mine.timers.push(setInterval(send, SIGN_OF_LIFE));
    if (match.agent) {
      arena.askRival(rivalOf(match)); // which lets it play on
      mine.timers.push(setInterval(() => arena.askRival(rivalOf(match)), RIVAL));
    }
    count();
  }

  function fail(mine, sentence) {
    if (mine !== game || mine.stop.signal.aborted) return;
    mine.timers.forEach(clearInterval);
    mine.state = "ready";
    draw("ready", match.name, "Start");
    say(sentence);
  }

  // --- Countdown, play, pause ---

  function count(left = COUNT) {
    const mine = game;
    mine.state = "counting";
    draw("counting", String(left), "");
    mine.waiting = setTimeout(() => {
      if (mine !== game || mine.state !== "counting") return;
      if (left > 1) return count(left - 1);
      mine.state = "playing";
      say("");
      draw("playing", "", "");
      send();
    }, BEAT);
  }

  function pause() {
    if (!["playing", "counting"].includes(game.state)) return;
    clearTimeout(game.waiting);
    game.state = "paused";
    hands.drop();
    send();
    draw("paused", "Paused", "Continue");
    say(arena.patience);
  }

  function act() {
    if (["ready", "over"].includes(game.state)) start();
    else if (game.state === "paused") {
      canvas.focus({ preventScroll: true });
      count();
    }
  }

  function draw(state, words, label) {
    root.dataset.state = state;
    const focused = document.activeElement === go;
    title.textContent = words;
    go.textContent = label;
    go.hidden = !label;
    hint.hidden = state !== "ready";
    if (focused && go.hidden) canvas.focus({ preventScroll: true });
  }

  function say(sentence) {
    if (status.textContent !== sentence) status.textContent = sentence;
  }

  // --- What is held ---

  function send() {
    if (game.about && !game.over) arena.tell(game.about.id, game.messages++, game.state === "playing" ? hands.held() : null);
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const word = KEYS[event.key];
    if (["playing", "counting"].includes(game.state)) {
      if (event.key === "Escape") return pause();
      if (!word) return;
      event.preventDefault();
      if (!event.repeat) hands.press(word);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (!event.repeat) act();
    }
  });
  // Right after the page has opened, before anything has been clicked, the keys that start a game start it too.
  document.addEventListener("keydown", (event) => {
    const idle = document.activeElement === document.body && canvas.offsetParent && game.state === "ready";
    if (!idle || event.repeat || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    act();
  }, { signal: here });
  canvas.addEventListener("keyup", (event) => KEYS[event.key] && hands.release(KEYS[event.key]));
  canvas.addEventListener("blur", pause);
  canvas.addEventListener("click", () => game.state !== "over" && act()); // a finger that scrolls is no click
  go.addEventListener("click", act);
  document.addEventListener("visibilitychange", () => document.hidden && pause(), { signal: here });
  window.addEventListener("blur", pause, { signal: here });

  // --- Pictures ---

  async function show(mine, header, /** @type {Omit<import("./live.js").Message, "header">} */ { data, paint: paintHere }) {
    const { width, height, rate } = mine.about;
    const pictures = data && (await unpacked(data, width * height));
    const count = header.pictures[0];
    clearTimeout(mine.next);
    const turn = (index) => {
      if (mine !== game) return;
      if (paintHere) paintHere(canvas, index);
      else paint(canvas, pictures, index);
      if (index + 1 < count) mine.next = setTimeout(() => turn(index + 1), 1000 / rate / count);
    };
    turn(0);
    canvas.dataset.step = header.first;
    canvas.dataset.action = header.actions[0];
  }

  // --- The end, and the agent's game of the same seed ---

  function finish(mine, why) {
    if (mine !== game || mine.over) return;
    mine.over = true;
    mine.state = "over";
    mine.timers.forEach(clearInterval);
    hands.drop();
    draw("over", `You scored ${brief(mine.score)}`, "Play again");
    result.hidden = false;
    report(null, why);
    if (!why && match.agent) board.offer(linkOf(mine.played), mine.score);
    if (match.agent) {
      trigger("over", { play: match.play, seed: match.seed });
      followRival(arena, rivalOf(match), (rival) => {
        const stays = mine === game && root.isConnected;
        if (stays) report(rival, why);
        return stays;
      });
    }
  }

  // A match is the agent's game, taken over at its first step.
  const linkOf = (played) => String(new URLSearchParams({ agent: match.agent, seed: String(match.seed), takeovers: written(played) }));

  const rivalOf = ({ play, seed }) => ({ play, seed });

  function report(rival, why) {
    const score = brief(game.score);
    const start = why ? `${why} ` : "";
    boast.textContent = `I scored ${score} in ${match.name}${match.pace}`;
    if (!match.agent) say(`${start}The zoo has no agent for ${match.name} yet, so your score stands alone.`);
    else if (!rival) say(`${start}Now the agent plays the same seed.`);
    else if (rival.error) say(`${start}${rival.error}`);
    else if (!rival.over) say(`${start}The agent has ${brief(rival.return)} so far and is still playing.`);
    else say(start + verdict(game.score, rival.return));
    boast.textContent += rival?.over ? `, the agent ${brief(rival.return)}: beat us both at seed ${match.seed}` : `: beat me at seed ${match.seed}`;
  }

  copy.addEventListener("click", async () => {
    const done = await share(address.shared(), boast.textContent);
    if (done === "copied") say("The result and its link are copied.");
    if (done !== "kept") return;
    boast.textContent += ` ${address.shared()}`;
    getSelection().selectAllChildren(boast);
    say("Copy the line that is selected below.");
  });

  // The address tells which match it is, and leads back to it.
  const named = ({ play, seed, speed, usual }) => ({ play, seed, speed: speed === usual ? null : speed });
  address.onReturn("play", (asked) => {
    if (String(asked) !== address.written(named(match))) trigger("visit", { query: String(asked) });
  });

  whenResized(shot, layPicture, here);
  watch("value", () => open(props.value));
  open(props.value);
}
