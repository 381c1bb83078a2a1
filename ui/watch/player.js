// A player of games that are cut into chunks (see ui/streaming/chunks.py): a canvas, what moves it, and what the agent thinks.
// Where the chunks come from is its source's business: a server that plays them, or files.
import * as address from "../address.js";
import { brief, lay, make, minus, whenResized, whileConnected } from "../chunk.js";
import { SHEET, share } from "../share.js";
import { query, server } from "./live.js";
import { listenToKeys } from "./player_keys.js";
import { makeBeside } from "./player_beside.js";
import { makePlayerBoard } from "./player_board.js";
import { makeLook } from "./player_look.js";
import { makeNext } from "./player_next.js";
import { makeNudges } from "./player_nudge.js";
import { makeRival } from "./player_rival.js";
import { makeTakeover } from "./player_takeover.js";
import { append, differsInAge, fresh, stepFrom, stepTo } from "./position.js";
import { draw, fetchChunk } from "./reel.js";

const START = 1.5; // seconds that are there before the game moves, so that it need not stop again
const SPEEDS = [0.5, 1, 2, 4];
const ANSWERED = 8000; // milliseconds that an answer to the visitor stays; then it is the game's turn
const BEHIND = 3; // pictures that a game which is being played by hand may lag behind its server
const PATIENCE = 500; // milliseconds without a new picture until it is explained

const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

/**
 * Makes a player; its value is a spec.
 * @param {import("../chunk.js").Host} host
 * @param {import("./position.js").Source} source
 */
export function mount({ element, props, watch, trigger }, source = server) {
  if (!element.isConnected) return;
  const here = whileConnected(element);
  const root = /** @type {HTMLElement} */ (element.querySelector(".player"));
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  // --- The parts of the page ---

  const shot = make("figure", "shot");
  const canvas = make("canvas", "", "", { tabindex: 0, role: "application", "aria-roledescription": "player" });
  const strip = make("figcaption", "strip");
  const name = make("span", "name");
  const note = make("span", "note");
  strip.append(name, note);
  shot.append(canvas, strip);

  const transport = make("div", "transport", "", { role: "group", "aria-label": "Player" });
  const button = (label, text, act) => {
    const made = make("button", "", text, { type: "button", "aria-label": label, title: label });
    made.addEventListener("click", act);
    return made;
  };
  const toggle = button("Play or pause (space or K)", "▶", () => (game.playing ? pause() : play()));
  const back = button("One step back (comma)", "‹", () => step(-1));
  const forth = button("One step forward (full stop)", "›", () => step(1));
  const bar = make("input", "seek", "", { type: "range", min: 0, max: 0, step: 1, "aria-label": "Position in the game" });
  const time = make("span", "time");
  const speed = button("Speed 1×", "1×", () => setSpeed(SPEEDS[(SPEEDS.indexOf(pace) + 1) % SPEEDS.length]));
  const link = button(`${SHEET ? "Share" : "Copy"} a link to this moment`, SHEET ? "Share" : "Link", shareLink);
  transport.append(toggle, back, forth, bar, time, speed, link);
  if (source.video) {
    const save = button("MP4: download the whole game as a video", "MP4", () => download(save, "video", source.video(game.spec)));
    const gif = button("GIF: download 20 seconds from here as an animated picture", "GIF", () =>
      download(gif, "GIF", source.gif(game.spec, stepOf(Math.floor(game.position)))));
    transport.append(save, gif);
  }

  const status = make("p", "said", "", { role: "status" });
  const thoughts = make("div", "thoughts");
  const choices = make("div", "choices", "", { role: "img" });
  const curves = [
    curve("Return so far", (steps) => steps.returns, stepTo),
    curve("Value: the return it still expects", (steps) => steps.values, stepChosen),
  ];
  thoughts.append(choices, ...curves.map((part) => part.figure));
  const films = make("div", "films");
  films.append(shot);
  root.append(films, transport, status, thoughts);
  const inGame = (act) => (value) => game.about && act(value);
  const keys = listenToKeys(root, button, {
    toggle: inGame(() => (game.playing ? pause() : play())),
    step: inGame(step),
    skip: inGame((seconds) => seek(game.position + seconds * game.about.rate)),
    seek: inGame((share) => seek(share * (game.pictures - 1))),
    speed: (count) => setSpeed(SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(pace) + count))]),
    takeOver: source.live && inGame(() => takeover.toggle()),
    fill: () => (document.fullscreenElement ? document.exitFullscreen() : shot.requestFullscreen?.()),
  });
  const next = makeNext({ button, still, another: () => source.another?.(element) ?? null, here });
  transport.append(next.toggle, keys);

  const look = makeLook({ canvas, shot, button, say, source, current: () => game, changed: tellAddress });
  const nudges = makeNudges({ canvas, button, say, fetchMore, begin, stepOf, still, current: () => game, choose });
  const beside = makeBeside({ films, source, current: () => game, pace: () => pace, unseen: () => unseen(), laid: layBeside, changed: tellAddress });
  const takeover = makeTakeover({
    root, picture: look.picture, canvas, source, still, button, say, begin, take, fetchMore, unseen, here, choose,
    nextStep: () => stepOf(Math.floor(game.position)) + 1,
    pace: () => pace,
    current: () => game,
  });
  const rival = makeRival({ shot, source, unseen, here });
  const board = source.live && root.dataset.tab ? makePlayerBoard({ current: () => game, finished: takeover.finished, here }) : null;
  look.extras.prepend(takeover.taking);
  look.extras.append(...nudges.parts, beside.choice);
  films.after(takeover.thumbs);
  transport.after(look.extras, look.note);
  status.after(takeover.result);
  if (board) takeover.result.after(board.form);
  if (board) root.append(board.part);

  // --- A game ---

  let pace = 1; // the speed, which stays from game to game
  let game = fresh(/** @type {import("./position.js").Spec} */ ({}));
  let others = /** @type {import("./player_beside.js").Other[]} */ ([]); // that can be shown beside it
  let answer = { sentence: "", until: 0 }; // what the visitor was last told of a press, and until when

  // The address tells what is shown, where this is the player of a tab.
  const { tab } = root.dataset;
  let leaving = false; // for a game that has yet to come
  let visits = 0; // how often the visitor has gone back or forth
  function tellAddress() {
    if (!tab || leaving || game.live || !game.spec.agent) return;
    const at = game.want ?? stepOf(Math.floor(game.position));
    address.tell(tab, query(game.spec), { at: at || null, speed: pace === 1 ? null : pace, look: look.purpose(), beside: beside.chosen() || null });
  }

  // The game, the moment and the settings of an address to which the visitor has gone back.
  function comeBack(asked) {
    leaving = true;
    adjust(asked);
    const named = query(/** @type {any} */ (Object.fromEntries(asked)));
    leaving = String(query(game.spec)) !== String(named);
    visits += 1;
    if (leaving) trigger("visit", { query: `${asked}&visit=${visits}` });
    else goTo(Number(asked.get("at")));
  }

  function adjust(asked) {
    setSpeed(SPEEDS.find((each) => each === Number(asked.get("speed"))) ?? 1);
    look.set(asked.get("look"));
    beside.choose(asked.get("beside"));
  }

  function choose(other) {
    game = other;
    beside.offer(game.live || game.spec.takeovers ? [] : others); // nobody else's game is played by these hands
    leaving = false;
    tellAddress();
  }

  function open(spec) {
    if (!spec?.agent || (spec.landing && location.search)) return; // the address names another, which is on its way
    if (Number(spec.visit ?? visits) !== visits) return; // the visitor has gone further meanwhile
    takeover.leave();
    const before = game;
    game = fresh(spec);
    const stays = before.about && differsInAge(before.spec, spec); // whoever watches it learn compares moments
    game.want = Number(spec.at) || (stays ? stepOf(Math.floor(before.position), before) : 0) || null;
    game.playing = stays ? before.playing : !still;
    if (answer.until < Infinity) answer.until = 0;
    others = (tab && spec.others) || [];
    beside.offer(game.live || game.spec.takeovers ? [] : others); // nobody else's game is played by these hands
    leaving = false;
    tellAddress();
    fetchMore();
  }

  // Whether nobody can see it: the window is hidden, or another tab of the page is in front.
  function unseen() {
    return document.hidden || !canvas.clientWidth;
  }

  async function fetchMore() {
    const mine = game;
    const wanted = () => mine === game;
    const before = mine.pictures;
    if (unseen() || !(await fetchChunk(mine, source, { pace, begin: (about) => begin(mine, about), wanted })) || !wanted()) return;
    if (mine.pictures > before || mine.over) taken(mine, before);
    setTimeout(fetchMore, mine.chunks.length ? 0 : 200);
  }

  // What the server says of a live game.
  function take(mine, { header, ...content }) {
    const before = mine.pictures;
    append(mine, header, content);
    taken(mine, before);
  }

  // More has come of a game that had so many pictures, or its end.
  function taken(mine, before) {
    const { steps } = mine;
    if (mine.drawn === before - 1) mine.drawn = -1; // what was chosen from that picture is here now
    bar.max = String(mine.pictures - 1);
    if (mine.want !== null && (steps.ends.length > mine.want || mine.over)) {
      seek(pictureOf(mine.want));
      mine.want = null;
    }
    curves.forEach((part) => part.draw());
  }

  function begin(mine, about) {
    mine.about = about;
    if (canvas.width !== about.width || canvas.height !== about.height) {
      canvas.width = about.width; // which empties it
      canvas.height = about.height;
    }
    shot.dataset.game = about.env;
    layPicture();
    name.textContent = mine.live ? `You, from step ${mine.live.first.toLocaleString("en")}` : `${about.agent}, ${about.greedy ? "greedy" : "sampled"} actions, seed ${about.seed}` +
      (about.snapshot < 100 ? `, at ${about.snapshot} % of training` : "") + (about.protocol === "sticky" ? ", sticky" : "") + nudgedWords(about) + takenWords(about);
    canvas.setAttribute("aria-label", `${about.env} played by ${about.agent}. Space plays and pauses, ? lists all keys.`);
    layChoices(about);
    look.lay(about);
    nudges.lay(about);
    takeover.lay();
  }

  function layPicture() {
    if (!game.about) return lay(look.picture, 4 / 3);
    const { width, height, pixel } = game.about;
    const shape = (width * pixel[1]) / (height * pixel[0]);
    const cells = pixel[0] !== pixel[1] && /** @type {[number, number]} */ ([width, height]); // a console's
    lay(look.picture, shape, cells);
    beside.lay(shape, cells);
  }

  function layBeside() {
    films.classList.toggle("pair", films.childElementCount > 1);
    layPicture();
    curves.forEach((part) => part.draw());
  }

  function nudgedWords({ nudges }) {
    const count = nudges ? nudges.split("-").length : 0;
    return count ? `, ${count} ${count === 1 ? "nudge" : "nudges"}` : "";
  }

  function takenWords({ takeovers }) {
    return takeovers ? `, taken over at step ${Number.parseInt(takeovers, 10).toLocaleString("en")}` : "";
  }

  // --- What is said below the game ---

  function say(sentence, milliseconds = ANSWERED) {
    answer = { sentence, until: performance.now() + milliseconds };
  }

  function tell(now) {
    put(status, now < answer.until ? answer.sentence : news(now));
  }

  function put(part, text) {
    if (part.textContent !== text) part.textContent = text;
  }

  function news(now) {
    const { spec, about, over, trouble, want, steps } = game;
    if (trouble || !spec.agent) return trouble;
    if (!about) return `${spec.agent} is starting.`;
    if (game.live) return takeover.news();
    if (want !== null) return `Playing to step ${want.toLocaleString("en")}.`;
    if (root.dataset.state === "waiting" && now - since > PATIENCE) {
      return look.waits(stepFrom(game, game.painted)) ? "Waiting to see what it looks at." : "Waiting for the next pictures.";
    }
    if (!over || game.position < game.pictures - 1) return "";
    const after = next.news(now);
    if (game.ending) return `${game.ending} ${after}`.trim();
    const ended = `The game ended after ${steps.ends.length.toLocaleString("en")} steps with a return of ${brief(steps.returns.at(-1))}.`;
    return `${ended} ${spec.takeovers ? takeover.ending() : ""} ${after}`.trim();
  }

  // --- Position ---

  function stepOf(picture, of = game) {
    return stepTo(of, picture);
  }

  // The step whose choice and value are shown with a picture: the one that the agent chose from it, or else its last.
  function stepChosen(of, picture) {
    const step = stepFrom(of, picture);
    return step < 0 ? stepTo(of, picture) : step;
  }

  const pictureOf = (step) => (game.steps.ends[Math.min(step, game.steps.ends.length - 1)] ?? 1) - 1;

  function seek(picture) {
    if (game.live) return;
    game.position = Math.max(0, Math.min(picture, game.pictures - 1));
  }

  function goTo(step) {
    if (step < game.steps.ends.length) seek(pictureOf(step));
    else game.want = step;
  }

  function step(count) {
    pause();
    seek(pictureOf(Math.max(0, stepOf(Math.floor(game.position)) + count)));
  }

  function play() {
    if (game.over && game.position >= game.pictures - 1) game.position = 0;
    game.playing = true;
  }

  function pause() {
    game.playing = false;
  }

  /** @param {number} value */
  function setSpeed(value) {
    pace = value;
    speed.textContent = `${value}×`;
    speed.title = `Speed ${value}×`;
    speed.setAttribute("aria-label", speed.title);
    tellAddress();
  }

  async function shareLink() {
    tellAddress();
    const done = await share(address.shared());
    if (done === "copied") say("The link to this moment is copied.");
    else if (done === "kept") say("The link to this moment is in the address bar.");
  }

  // A link alone could not say that the server makes the file for a while, nor why it does not.
  async function download(pressed, what, address) {
    if (pressed.hasAttribute("aria-busy")) return;
    pressed.setAttribute("aria-busy", "true");
    say(`The ${what} is being made.`, Infinity);
    try {
      const file = await fetch(address);
      if (!file.ok) return say((await file.json()).error);
      const [, name] = /filename="([^"]*)"/.exec(file.headers.get("content-disposition")) ?? [];
      const href = URL.createObjectURL(await file.blob());
      make("a", "", "", { href, download: name ?? "" }).click();
      setTimeout(() => URL.revokeObjectURL(href), 60_000);
      say(`The ${what} is in your downloads.`);
    } catch {
      say("The connection was lost. Please try again.");
    } finally {
      pressed.removeAttribute("aria-busy");
    }
  }

  // --- What the agent thinks ---

  function layChoices(about) {
    const names = about.actions || about.numbers;
    choices.classList.toggle("torque", !about.actions);
    choices.replaceChildren(
      ...names.map((text) => {
        const row = make("div", "choice");
        row.append(make("span", "label", text), make("span", "track"), make("span", "share"));
        row.children[1].append(make("i", ""));
        return row;
      }),
    );
  }

  function spoken(picture, step) {
    const { about, steps } = game;
    const chosen = stepChosen(game, picture);
    const action = about.actions ? `, chooses ${about.actions[steps.actions[chosen]] ?? steps.actions[chosen]}` : "";
    return `${clock(picture / about.rate)}, step ${step}${action}, return ${brief(steps.returns[step])}, value ${brief(steps.values[chosen])}`;
  }

  function showChoices(now) {
    const policy = game.steps.policies[now];
    const action = game.steps.actions[now];
    if (!game.about.actions) {
      const names = game.about.numbers; // the policy is all means, then all deviations
      const place = (value) => (50 + 50 * Math.max(-1, Math.min(1, value)));
      [...choices.children].forEach((/** @type {any} */ row, i) => {
        const fill = row.children[1].firstChild;
        fill.style.left = `${Math.min(50, place(policy[i]))}%`;
        fill.style.width = `${Math.abs(place(policy[i]) - 50)}%`;
        row.children[2].textContent = minus(policy[i].toFixed(2));
      });
      const said = (name, i) => `Mean ${name} ${policy[i].toFixed(2)}, deviation ${policy[names.length + i].toFixed(2)}`;
      choices.setAttribute("aria-label", names.map(said).join("; "));
      return;
    }
    [...choices.children].forEach((/** @type {any} */ row, i) => {
      row.classList.toggle("taken", i === action);
      row.children[1].firstChild.style.width = `${100 * policy[i]}%`;
      row.children[2].textContent = `${Math.round(100 * policy[i])} %`;
    });
    choices.setAttribute("aria-label", `${takeover.byHand(now) ? "Chosen by hand:" : "The agent chooses"} ${game.about.actions[action] ?? action}`);
  }

  // `place` finds the step whose number is shown with a picture.
  function curve(label, values, place) {
    const figure = make("figure", "curve live");
    const caption = make("figcaption", "");
    const output = make("output", "", "", { "aria-live": "off" }); // it changes with every step
    caption.append(make("span", "", label), output);
    const plot = make("div", "plot");
    const low = make("span", "low");
    const high = make("span", "high");
    const paper = make("canvas", "", "", { role: "img", "aria-label": label });
    plot.append(high, low, paper);
    figure.append(caption, plot);
    const bounds = (all) => all.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [0, 0]);

    function drawCurve() {
      const all = values(game.steps);
      const theirs = values(beside.steps());
      const ratio = devicePixelRatio || 1;
      const [width, height] = [paper.clientWidth * ratio, paper.clientHeight * ratio];
      if (!width) return;
      if (paper.width !== Math.round(width) || paper.height !== Math.round(height)) {
        paper.width = Math.round(width);
        paper.height = Math.round(height);
      }
      const pen = paper.getContext("2d");
      pen.clearRect(0, 0, width, height);
      if (!all.length) return;
      const [least, highest] = bounds([...all, ...theirs]);
      const last = Math.max(1, all.length - 1, theirs.length - 1);
      const most = highest - least < 1e-6 ? least + 1 : highest;
      high.textContent = brief(most);
      low.textContent = brief(least);
      const style = getComputedStyle(figure);
      const x = (i) => (i / last) * width;
      const y = (value) => height - 2 * ratio - ((value - least) / (most - least)) * (height - 4 * ratio);
      pen.strokeStyle = style.getPropertyValue("--line");
      pen.lineWidth = ratio;
      pen.beginPath();
      pen.moveTo(0, y(0));
      pen.lineTo(width, y(0));
      pen.stroke();
      pen.fillStyle = style.getPropertyValue("--quiet");
      if (game.about?.env.startsWith("ALE/")) {
        game.steps.rewards.forEach((reward, i) => reward && pen.fillRect(x(i), reward > 0 ? 0 : height - 6 * ratio, ratio, 6 * ratio));
      }
      nudges.draw(pen, x, height, ratio);
      takeover.draw(pen, x, height, ratio);
      const trace = (numbers, colour, thickness) => {
        pen.strokeStyle = style.getPropertyValue(colour);
        pen.lineWidth = thickness * ratio;
        pen.beginPath();
        const every = Math.max(1, Math.floor(numbers.length / width));
        for (let i = 0; i < numbers.length; i += every) pen.lineTo(x(i), y(numbers[i]));
        pen.lineTo(x(numbers.length - 1), y(numbers.at(-1)));
        pen.stroke();
      };
      if (theirs.length) trace(theirs, "--quiet", 1.25);
      trace(all, "--accent", 2);
      const now = place(game, Math.floor(game.position));
      pen.fillStyle = style.color;
      pen.fillRect(Math.min(width - ratio, x(now)), 0, ratio, height);
      output.textContent = brief(all[now]);
    }

    paper.addEventListener("click", (event) => {
      const share = (event.clientX - paper.getBoundingClientRect().left) / paper.clientWidth;
      const last = Math.max(game.steps.ends.length, beside.steps().ends.length) - 1;
      seek(pictureOf(Math.round(share * last)));
    });
    new ResizeObserver(drawCurve).observe(paper);
    return { figure, draw: drawCurve };
  }

  // --- Time ---

  function light() {
    if (game.want === null && !game.live) look.at(stepFrom(game, game.painted));
  }

  // A picture and what the agent looks at in it, both before the browser shows either.
  async function show(mine, picture) {
    await draw(mine, canvas, picture, () => mine === game);
    light();
  }

  let latest = 0;
  let since = 0; // when its state was last another
  function tick(now) {
    const passed = unseen() ? 0 : Math.min(0.25, (now - latest) / 1000);
    latest = now;
    if (game.about && game.pictures) {
      const end = game.pictures - 1;
      const { live } = game;
      if (live || game.over || end - game.position >= START * pace * game.about.rate) game.rolling = true;
      else if (game.position >= end) game.rolling = false;
      const goal = Math.min(end, game.position + passed * game.about.rate * (live ? live.pace : pace));
      const late = !live && (look.waits(stepFrom(game, Math.floor(goal))) || beside.waits(goal));
      if (game.playing && game.want === null && game.rolling && !late) {
        game.position = live ? Math.max(goal, end - BEHIND) : goal;
        if (game.position >= end && game.over) {
          pause();
          if (!game.spec.takeovers) next.ended(now); // a visitor's own game stays
        }
      }
      const picture = Math.floor(game.position);
      if (picture !== game.drawn) {
        show(game, picture);
        const step = stepOf(picture);
        showChoices(stepChosen(game, picture));
        curves.forEach((part) => part.draw());
        bar.value = String(picture);
        note.textContent = `Return ${brief(game.steps.returns[step])}`;
        bar.setAttribute("aria-valuetext", spoken(picture, step));
        tellAddress();
      }
      const [at, whole] = [picture, end].map((place) => clock(place / game.about.rate));
      put(time, `${at} / ${whole}${game.over ? "" : " …"}`);
      beside.at(game.position);
      rival.follow(game, picture);
      takeover.at();
      board?.at();
      light();
      const moves = live || (game.rolling && game.position < end && !late);
      const state = game.playing || live ? (moves ? "playing" : "waiting") : "paused";
      if (state !== root.dataset.state) since = now;
      root.dataset.state = state;
      toggle.textContent = game.playing ? "❚❚" : "▶";
    }
    tell(now);
    fetchMore();
    if (root.isConnected) requestAnimationFrame(tick);
  }

  bar.addEventListener("input", () => seek(Number(bar.value)));
  canvas.addEventListener("click", () => game.live || (game.playing ? pause() : play()));

  document.addEventListener("visibilitychange", () => fetchMore(), { signal: here });
  whenResized(shot, layPicture, here);

  if (tab) {
    address.onReturn(tab, comeBack);
    adjust(new URL(location.href).searchParams);
  }
  watch("value", () => open(props.value));
  open(props.value);
  requestAnimationFrame(tick);
}
