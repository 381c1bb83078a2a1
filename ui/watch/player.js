// A player of games that are cut into chunks (see ui/broadcast/chunks.py): a canvas, what moves it, and what the agent thinks.
// Where the chunks come from is its source's business: a server that plays them, or files.
import { brief, lay, make, minus, opened, paint, unpacked, whenResized, whileConnected } from "../chunk.js";
import { query, server } from "./live.js";
import { listenToKeys } from "./player_keys.js";
import { makeLook } from "./player_look.js";
import { makeNext } from "./player_next.js";
import { makeNudges } from "./player_nudge.js";
import { append, chunkOf, differsInAge, firstAbove, forget, fresh } from "./position.js";

const START = 1.5; // seconds that are there before the game moves, so that it need not stop again
const SPEEDS = [0.5, 1, 2, 4];
const ANSWERED = 8000; // milliseconds that an answer to the visitor stays; then it is the game's turn
const PATIENCE = 500; // milliseconds without a new picture until it is explained

const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

/**
 * Makes a player; its value is a ticket.
 * @param {import("../chunk.js").Host} host
 * @param {import("./position.js").Source} source
 */
export function mount({ element, props, watch }, source = server) {
  if (!element.isConnected) return;
  const here = whileConnected(element);
  const root = /** @type {HTMLElement} */ (element.querySelector(".player"));
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  // --- The parts of the page ---

  const shot = make("figure", "shot");
  const canvas = make("canvas", "", "", { tabindex: 0, role: "img" });
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
  const link = button("Copy a link to this moment", "Link", copyLink);
  transport.append(toggle, back, forth, bar, time, speed, link);
  if (source.video) {
    const save = button("MP4: download the whole game as a video", "MP4", () => download(save, "video", source.video(game.ticket)));
    const gif = button("GIF: download 20 seconds from here as a moving picture", "GIF", () =>
      download(gif, "moving picture", source.gif(game.ticket, stepOf(Math.floor(game.position)))));
    transport.append(save, gif);
  }

  const status = make("p", "said", "", { role: "status" });
  const thoughts = make("div", "thoughts");
  const choices = make("div", "choices", "", { role: "img" });
  const curves = [
    curve("Return so far", (steps) => steps.returns),
    curve("Value: what it still expects", (steps) => steps.values),
  ];
  thoughts.append(choices, ...curves.map((part) => part.figure));
  root.append(shot, transport, status, thoughts);
  const inGame = (act) => (value) => game.about && act(value);
  const keys = listenToKeys(root, button, {
    toggle: inGame(() => (game.playing ? pause() : play())),
    step: inGame(step),
    skip: inGame((seconds) => seek(game.position + seconds * game.about.rate)),
    seek: inGame((share) => seek(share * (game.pictures - 1))),
    speed: (count) => setSpeed(SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(pace) + count))]),
    fill: () => (document.fullscreenElement ? document.exitFullscreen() : shot.requestFullscreen?.()),
  });
  const next = makeNext({ button, still, another: () => source.another?.(element) ?? null, here });
  transport.append(next.toggle, keys);

  const look = makeLook({ canvas, shot, button, say, source, current: () => game });
  const nudges = makeNudges({ canvas, button, say, fetchMore, begin, stepOf, still, current: () => game, choose: (other) => (game = other) });
  look.extras.append(...nudges.parts);
  transport.after(look.extras, look.note);

  // --- A game ---

  let pace = 1; // the speed, which stays from game to game
  let game = fresh(/** @type {import("./position.js").Ticket} */ ({}));
  let answer = { sentence: "", until: 0 }; // what the visitor was last told of a press, and until when

  function open(ticket) {
    if (!ticket?.agent || (ticket.landing && location.search)) return; // the address names another, which is on its way
    const before = game;
    game = fresh(ticket);
    const stays = before.about && differsInAge(before.ticket, ticket); // whoever watches it learn compares moments
    game.want = Number(ticket.at) || (stays ? stepOf(Math.floor(before.position), before) : 0) || null;
    game.playing = stays ? before.playing : !still;
    if (answer.until < Infinity) answer.until = 0;
    fetchMore();
  }

  // Whether nobody can see it: the window is hidden, or another tab of the page is in front.
  const unseen = () => document.hidden || !canvas.clientWidth;

  async function fetchMore() {
    const mine = game;
    if (!mine.ticket.agent || mine.fetching || mine.over || mine.failed || unseen()) return;
    const ahead = Math.max(0, mine.pictures - mine.position);
    if (mine.about && mine.want === null && ahead > source.ahead * mine.about.rate * Math.max(1, pace)) return;
    mine.fetching = true;
    try {
      const left = mine.about ? Math.floor(ahead / mine.about.rate / pace) : 0;
      const got = await source.chunk(mine.ticket, mine.chunks.length, left);
      if (mine !== game) return;
      if (got.status < 300) mine.trouble = "";
      if (got.status === 200) take(mine, got.played ?? opened(got.buffer));
      else if (got.status === 204) Object.assign(mine, { over: true, ending: got.error });
      else if (got.status !== 202) {
        mine.failed = got.status !== 503;
        mine.trouble = got.error;
        if (!mine.failed) await new Promise((wake) => setTimeout(wake, 1000 + 1000 * Math.random()));
      }
    } catch {
      mine.trouble = "The connection is lost; the game goes on when it is back.";
      await new Promise((wake) => setTimeout(wake, 1000));
    } finally {
      mine.fetching = false;
    }
    if (mine === game) setTimeout(fetchMore, mine.chunks.length ? 0 : 200);
  }

  function take(mine, { header, ...content }) {
    if (header.game) begin(mine, header.game);
    append(mine, header, content);
    const { steps } = mine;
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
    name.textContent = `${about.agent}, ${about.greedy ? "likeliest" : "drawn"} actions, seed ${about.seed}` +
      (about.snapshot < 100 ? `, at ${about.snapshot} % of training` : "") + (about.protocol === "sticky" ? ", sticky" : "") + nudgedWords(about);
    canvas.setAttribute("aria-label", `${about.env} played by ${about.agent}`);
    layChoices(about);
    look.lay(about);
    nudges.lay(about);
  }

  function layPicture() {
    if (!game.about) return lay(look.picture, 4 / 3);
    const { width, height, pixel } = game.about;
    const coarse = pixel[0] !== pixel[1]; // a console's
    lay(look.picture, (width * pixel[1]) / (height * pixel[0]), coarse && [width, height]);
  }

  function nudgedWords({ nudges }) {
    const count = nudges ? nudges.split("-").length : 0;
    return count ? `, ${count} ${count === 1 ? "nudge" : "nudges"}` : "";
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
    const { ticket, about, over, trouble, want, steps } = game;
    if (trouble || !ticket.agent) return trouble;
    if (!about) return `${ticket.agent} is starting.`;
    if (want !== null) return `Playing to step ${want.toLocaleString("en")}.`;
    if (root.dataset.state === "waiting" && now - since > PATIENCE) return "Waiting for the next pictures.";
    if (!over || game.position < game.pictures - 1) return "";
    const after = next.news(now);
    if (game.ending) return `${game.ending} ${after}`.trim();
    const ended = `The game ended after ${steps.ends.length.toLocaleString("en")} steps with a return of ${brief(steps.returns.at(-1))}.`;
    return `${ended} ${after}`.trim();
  }

  // --- Position ---

  // The step that led to a picture: the first whose pictures end behind it.
  function stepOf(picture, { steps } = game) {
    return firstAbove(steps.ends, picture);
  }
  const pictureOf = (step) => (game.steps.ends[Math.min(step, game.steps.ends.length - 1)] ?? 1) - 1;

  function seek(picture) {
    game.position = Math.max(0, Math.min(picture, game.pictures - 1));
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
  }

  async function copyLink() {
    const { ticket } = game;
    const address = new URL(location.href);
    address.search = String(query(ticket, { at: stepOf(Math.floor(game.position)) }));
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address.href);
      say("The link to this moment is copied.");
    } catch {
      say("The link to this moment is in the address bar.");
    }
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
      say(`The ${what} is among your downloads.`);
    } catch {
      say("The connection was lost. Please try again.");
    } finally {
      pressed.removeAttribute("aria-busy");
    }
  }

  // --- Pictures ---

  async function pictures(index) {
    const found = game.decoded.get(index);
    if (found) return found;
    const { about, decoded } = game;
    const promise = unpacked(game.chunks[index].data, about.width * about.height);
    decoded.set(index, promise);
    forget(decoded, game.chunks);
    return promise;
  }

  async function draw(picture) {
    const mine = game;
    const index = chunkOf(mine.starts, picture);
    const { paint: paintHere } = mine.chunks[index];
    if (paintHere) return paintHere(canvas, picture - mine.starts[index]);
    const part = await pictures(index);
    if (mine !== game || mine.drawn !== picture) return;
    paint(canvas, part, picture - mine.starts[index]);
    if (index + 1 < mine.chunks.length) pictures(index + 1);
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
    choices.setAttribute("aria-label", `The agent chooses ${game.about.actions[action] ?? action}`);
  }

  function curve(label, values) {
    const figure = make("figure", "curve live");
    const caption = make("figcaption", "");
    const output = make("output", "");
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
      let [least, most] = bounds(all);
      if (most - least < 1e-6) most = least + 1;
      high.textContent = brief(most);
      low.textContent = brief(least);
      const style = getComputedStyle(figure);
      const x = (i) => (i / Math.max(1, all.length - 1)) * width;
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
      pen.strokeStyle = style.getPropertyValue("--accent");
      pen.lineWidth = 2 * ratio;
      pen.beginPath();
      const every = Math.max(1, Math.floor(all.length / width));
      for (let i = 0; i < all.length; i += every) pen.lineTo(x(i), y(all[i]));
      pen.lineTo(x(all.length - 1), y(all[all.length - 1]));
      pen.stroke();
      const now = stepOf(Math.floor(game.position));
      pen.fillStyle = style.color;
      pen.fillRect(Math.min(width - ratio, x(now)), 0, ratio, height);
      output.textContent = brief(all[now]);
    }

    paper.addEventListener("click", (event) => {
      const share = (event.clientX - paper.getBoundingClientRect().left) / paper.clientWidth;
      seek(pictureOf(Math.round(share * (game.steps.ends.length - 1))));
    });
    new ResizeObserver(drawCurve).observe(paper);
    return { figure, draw: drawCurve };
  }

  // --- Time ---

  let latest = 0;
  let since = 0; // when its state was last another
  function tick(now) {
    const passed = unseen() ? 0 : Math.min(0.25, (now - latest) / 1000);
    latest = now;
    if (game.about && game.pictures) {
      const end = game.pictures - 1;
      if (game.over || end - game.position >= START * pace * game.about.rate) game.rolling = true;
      else if (game.position >= end) game.rolling = false;
      if (game.playing && game.want === null && game.rolling) {
        game.position = Math.min(end, game.position + passed * game.about.rate * pace);
        if (game.position >= end && game.over) {
          pause();
          next.ended(now);
        }
      }
      const picture = Math.floor(game.position);
      if (picture !== game.drawn) {
        game.drawn = picture;
        draw(picture);
        const step = stepOf(picture);
        showChoices(step);
        curves.forEach((part) => part.draw());
        bar.value = String(picture);
        note.textContent = `Return ${brief(game.steps.returns[step])}`;
        bar.setAttribute("aria-valuetext", `${clock(picture / game.about.rate)}, step ${step}`);
        canvas.dataset.step = String(step);
      }
      const [at, whole] = [picture, end].map((place) => clock(place / game.about.rate));
      put(time, `${at} / ${whole}${game.over ? "" : " …"}`);
      if (game.want === null) look.at(stepOf(picture));
      const state = game.playing ? (game.rolling && game.position < end ? "playing" : "waiting") : "paused";
      if (state !== root.dataset.state) since = now;
      root.dataset.state = state;
      toggle.textContent = game.playing ? "❚❚" : "▶";
    }
    tell(now);
    fetchMore();
    if (root.isConnected) requestAnimationFrame(tick);
  }

  bar.addEventListener("input", () => seek(Number(bar.value)));
  canvas.addEventListener("click", () => (game.playing ? pause() : play()));

  document.addEventListener("visibilitychange", () => fetchMore(), { signal: here });
  whenResized(shot, layPicture, here);

  watch("value", () => open(props.value));
  open(props.value);
  requestAnimationFrame(tick);
}
