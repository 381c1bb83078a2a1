// The game that a visitor plays. The value says which game, which seed, how fast.
// The server runs the game (see ui/play/live.py): its pictures come in one long answer, what is held goes up in small posts.
import { base, brief, lay, make, opened, paint, unpacked, whenResized, whileConnected } from "../chunk.js";

/** @param {import("../chunk.js").Host} host */
export function mount({ element, props, watch, trigger }) {
  if (!element.isConnected) return;
  const here = whileConnected(element);
  const root = /** @type {HTMLElement} */ (element.querySelector(".human"));
  const COUNT = 3;
  const BEAT = 700; // milliseconds of the countdown's numbers
  const SIGN_OF_LIFE = 500; // milliseconds; the game of a silent page waits, then the server gives the page up
  const RIVAL = { playing: 15000, over: 700 }; // milliseconds between questions how the agent does
  const KEYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", " ": "fire" };
  const SIGNS = { left: "←", right: "→", up: "↑", down: "↓", fire: "Fire" };

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
  const thumbs = make("div", "thumbs", "", { role: "group", "aria-label": "Controls" });
  const status = make("p", "said", "", { role: "status" });
  const result = make("div", "result");
  const boast = make("p", "boast");
  const copy = make("button", "copy", "Copy the result and its link", { type: "button" });
  result.append(boast, copy);
  root.append(shot, thumbs, status, result);

  // --- A match: from the choice of a game to its end ---

  let match = props.value;
  let game = fresh();

  function fresh() {
    return { state: "ready", about: null, score: 0, over: false, messages: 0, held: [], stop: new AbortController(), timers: [] };
  }

  function open(value) {
    if (!value?.play) return;
    const starting = ["opening", "counting"].includes(game.state);
    leave();
    match = value;
    shot.dataset.game = match.env;
    layPicture();
    canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
    canvas.setAttribute("aria-label", `${match.name}, played by you. ${match.keys} ${match.rule}`);
    name.textContent = `You, seed ${match.seed}${match.pace}`;
    note.textContent = "Score 0";
    result.hidden = true;
    thumbs.replaceChildren(...match.buttons.map((word) => {
      return make("button", "thumb", SIGNS[word], { type: "button", tabindex: -1, "data-word": word, "aria-label": word });
    }));
    keys.textContent = `${match.keys} `;
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
    try {
      const answer = await fetch(`${base}/arcade/live?${new URLSearchParams({ play, seed, speed })}`, {
        method: "POST", signal: mine.stop.signal,
      });
      if (!answer.ok) return fail(mine, (await answer.json()).error);
      await read(mine, answer.body.getReader());
    } catch {
      // What a browser says of a lost connection is meant for nobody who plays.
    }
    if (!mine.over) fail(mine, mine.about ? "The connection was lost, and your game with it." : "The server cannot be reached. Please try again.");
  }

  // Messages from the server, each with its length in four bytes before it.
  async function read(mine, reader) {
    let rest = new Uint8Array(0);
    for (;;) {
      const { done, value } = await reader.read();
      if (done || mine !== game) return;
      const bytes = new Uint8Array(rest.length + value.length);
      bytes.set(rest);
      bytes.set(value, rest.length);
      let at = 0;
      while (bytes.length - at >= 4) {
        const length = new DataView(bytes.buffer).getUint32(at, true);
        if (bytes.length - at - 4 < length) break;
        await take(mine, bytes.slice(at + 4, at + 4 + length).buffer);
        at += 4 + length;
      }
      rest = bytes.slice(at);
    }
  }

  async function take(mine, buffer) {
    const { header, data } = opened(buffer);
    if (header.ended) return finish(mine, header.ended);
    if (header.game) begin(mine, header.game);
    await show(mine, header, data);
    if (mine !== game) return;
    mine.score += header.rewards[0];
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
      askRival();
      mine.timers.push(setInterval(askRival, RIVAL.playing));
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
    game.held = [];
    markThumbs();
    send();
    draw("paused", "Paused", "Go on");
    say("The game waits for a minute.");
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

  function press(word) {
    if (game.held.includes(word)) return;
    game.held = [...game.held, word];
    if (game.state === "playing") send();
    markThumbs();
  }

  function release(word) {
    if (!game.held.includes(word)) return;
    game.held = game.held.filter((other) => other !== word);
    if (game.state === "playing") send();
    markThumbs();
  }

  function send() {
    if (!game.about || game.over) return;
    const told = new URLSearchParams({ id: game.about.id, n: String(game.messages++) });
    if (game.state === "playing") told.set("held", game.held.join("."));
    fetch(`${base}/arcade/live/keys?${told}`, { method: "POST", keepalive: true }).catch(() => {});
  }

  function markThumbs() {
    for (const button of thumbs.querySelectorAll("button")) button.classList.toggle("held", game.held.includes(button.dataset.word));
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const word = KEYS[event.key];
    if (["playing", "counting"].includes(game.state)) {
      if (event.key === "Escape") return pause();
      if (!word) return;
      event.preventDefault();
      if (!event.repeat) press(word);
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
  canvas.addEventListener("keyup", (event) => KEYS[event.key] && release(KEYS[event.key]));
  canvas.addEventListener("blur", pause);
  canvas.addEventListener("click", () => game.state !== "over" && act()); // a finger that scrolls is no click
  go.addEventListener("click", act);
  document.addEventListener("visibilitychange", () => document.hidden && pause(), { signal: here });
  window.addEventListener("blur", pause, { signal: here });

  // A thumb may slide from one button to the next; each finger holds the button under it.
  const fingers = new Map();
  function finger(event) {
    const under = /** @type {HTMLElement | null} */ (document.elementFromPoint(event.clientX, event.clientY)?.closest("button.thumb"));
    lift(event, under?.dataset.word);
    if (under && thumbs.contains(under)) {
      fingers.set(event.pointerId, under.dataset.word);
      press(under.dataset.word);
    }
  }
  function lift(event, next) {
    const word = fingers.get(event.pointerId);
    fingers.delete(event.pointerId);
    if (word && word !== next && ![...fingers.values()].includes(word)) release(word);
  }
  thumbs.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    if (game.state === "paused" || game.state === "ready") act();
    finger(event);
  });
  thumbs.addEventListener("pointermove", (event) => fingers.has(event.pointerId) && finger(event));
  for (const kind of ["pointerup", "pointercancel"]) thumbs.addEventListener(kind, (event) => lift(event));
  for (const kind of ["mousedown", "contextmenu"]) thumbs.addEventListener(kind, (event) => event.preventDefault());

  // --- Pictures ---

  async function show(mine, header, data) {
    const { width, height, rate } = mine.about;
    const pictures = await unpacked(data, width * height);
    const count = header.pictures[0];
    clearTimeout(mine.next);
    const turn = (index) => {
      if (mine !== game) return;
      paint(canvas, pictures, index);
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
    mine.held = [];
    markThumbs();
    draw("over", `You scored ${brief(mine.score)}`, "Play again");
    result.hidden = false;
    tell(null, why);
    if (match.agent) {
      trigger("over", { play: match.play, seed: match.seed });
      follow(mine, why);
    }
  }

  async function askRival() {
    const { play, seed } = match;
    try {
      const answer = await fetch(`${base}/arcade/rival?${new URLSearchParams({ play, seed })}`);
      return await answer.json();
    } catch {
      return { error: "The connection is lost." };
    }
  }

  // The agent plays faster than anybody watches, but a long game takes a while.
  async function follow(mine, why) {
    for (;;) {
      const rival = await askRival();
      if (mine !== game || !root.isConnected) return;
      tell(rival, why);
      if (rival.over) return;
      await new Promise((wake) => setTimeout(wake, rival.error ? 5000 : RIVAL.over));
      if (mine !== game) return;
    }
  }

  function tell(rival, why) {
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

  function verdict(mine, agents) {
    const both = `${brief(mine)} against ${brief(agents)}`;
    if (mine > agents) return `You beat the agent: ${both}.`;
    return mine < agents ? `The agent won: ${brief(agents)} against your ${brief(mine)}.` : `A draw: both of you scored ${brief(mine)}.`;
  }

  copy.addEventListener("click", async () => {
    const address = new URL(location.href);
    const { play, seed, speed, usual } = match;
    address.search = String(new URLSearchParams({ play, seed, ...(speed === usual ? {} : { speed }) }));
    const text = `${boast.textContent} ${address.href}`;
    try {
      await navigator.clipboard.writeText(text);
      say("The result and its link are copied.");
    } catch {
      boast.textContent = text;
      getSelection().selectAllChildren(boast);
      say("Copy the line that is selected below.");
    }
  });

  whenResized(shot, layPicture, here);
  watch("value", () => open(props.value));
  open(props.value);
}
