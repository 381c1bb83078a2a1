// Runs when the tab is first opened. `element` is gradio's. The page is our own HTML, made by ui/how.
import { onReturn, openTab, tell } from "../address.js";
import { base } from "../gradio_internals.js";

const SLOWER = 40; // the timeline's milliseconds take so many times as long to watch
const INSTANT = /** @type {ScrollBehavior} */ ("instant"); // a style sheet may want it smooth

/** @param {import("../chunk.js").Host} host */
export function mount({ element }) {
  const lesson = element.querySelector(".lesson");

  async function open() {
    const answer = await fetch(`${base}/arcade/how`);
    if (!answer.ok) throw new Error(answer.statusText);
    lesson.innerHTML = await answer.text();
    lesson.addEventListener("click", follow);
    runTimelines(lesson);
    const chapter = location.hash.slice(1);
    tell("how", { tab: "how" }, {}, chapter);
    if (chapter) show(decodeURIComponent(chapter));
  }

  function show(id) {
    const found = id ? document.getElementById(id) : lesson;
    if (found && lesson.contains(found)) found.scrollIntoView({ behavior: INSTANT });
  }

  // A link to a chapter or to another tab leads there without loading the page anew.
  function follow(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const [, tab, chapter = ""] = link.getAttribute("href").match(/^\?tab=([a-z]+)(?:#(.+))?$/) ?? [];
    if (!tab) return;
    event.preventDefault();
    if (tab === "how") {
      tell("how", { tab }, {}, chapter);
      show(chapter);
    } else {
      openTab(tab);
      scrollTo({ top: 0, behavior: INSTANT });
    }
  }

  onReturn("how", (_, chapter) => show(decodeURIComponent(chapter)));
  open().catch(() => {
    lesson.querySelector("p")?.replaceChildren("The page could not be fetched. Reload it in a moment.");
  });
}

// --- The timeline ---

/**
 * Lets a timeline be played.
 * @param {HTMLElement} figure
 */
function run(figure) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const { milliseconds, left, right } = Object.fromEntries(Object.entries(figure.dataset).map(([k, v]) => [k, Number(v)]));
  const updates = JSON.parse(figure.dataset.updates).map(([pull, play, learn, push, done, rank, seen, before]) => ({
    pull, play, learn, push, done, rank, seen, before,
  }));
  const [roll, line, said] = [".roll", ".playhead", ".said"].map((name) => figure.querySelector(name));
  const toggle = Object.assign(document.createElement("button"), { type: "button" });
  const bar = Object.assign(document.createElement("input"), { type: "range", className: "seek", min: "0", max: String(Math.ceil(milliseconds)), step: "1", value: "0" });
  bar.setAttribute("aria-label", "Moment of the trace");
  const time = Object.assign(document.createElement("span"), { className: "time" });
  figure.querySelector(".transport").append(toggle, bar, time);
  let now = 0;
  let playing = !still;
  let visible = false;
  let latest = 0;

  function doing(rank, x) {
    const mine = updates.filter((update) => update.rank === rank);
    const at = mine.find((update) => update.pull <= x && x < update.done);
    if (!at) return x < mine[0].pull ? "is still busy with an earlier update" : x < mine.at(-1).done ? "is between two updates" : "goes on";
    if (x < at.play) return `pulls version ${at.seen}`;
    if (x < at.learn) return `plays with version ${at.seen}`;
    return x < at.push ? `computes the gradient of version ${at.seen}` : "pushes";
  }

  function told(x) {
    const last = updates.filter((update) => update.done <= x).at(-1);
    const workers = `Worker 1 ${doing(0, x)}, worker 2 ${doing(1, x)}.`;
    if (!last) return workers;
    const stale = last.before - last.seen;
    return `${workers} The last push, worker ${last.rank + 1}’s, made version ${last.before + 1} with a gradient of version ${last.seen}: staleness ${stale}.`;
  }

  function draw() {
    const x = left + (now / milliseconds) * (right - left);
    line.setAttribute("x1", String(x));
    line.setAttribute("x2", String(x));
    const text = told(x);
    if (said.textContent !== text) said.textContent = text;
    bar.value = String(now);
    bar.setAttribute("aria-valuetext", `${Math.round(now)} milliseconds. ${text}`);
    time.textContent = `${Math.round(now)} ms`;
    if (playing && roll.scrollWidth > roll.clientWidth) roll.scrollLeft = x - roll.clientWidth / 2;
  }

  function set(play) {
    playing = play;
    toggle.textContent = playing ? "❚❚" : "▶";
    toggle.setAttribute("aria-label", playing ? "Pause the timeline" : "Play the timeline");
    figure.dataset.state = playing ? "playing" : "paused";
    if (playing && visible) wake();
  }

  function wake() {
    latest = performance.now();
    requestAnimationFrame(tick);
  }

  function tick(moment) {
    if (!playing || !visible || !figure.isConnected) return;
    now += Math.max(0, moment - latest) / SLOWER;
    latest = moment;
    if (now > milliseconds) now = 0;
    draw();
    requestAnimationFrame(tick);
  }

  toggle.addEventListener("click", () => set(!playing));
  bar.addEventListener("input", () => {
    set(false);
    now = Math.min(milliseconds, Number(bar.value));
    draw();
  });
  new IntersectionObserver(([entry]) => {
    const before = visible;
    visible = entry.isIntersecting;
    if (visible && !before && playing) wake();
  }).observe(figure);
  set(playing);
  draw();
}

/** @param {Element} lesson */
export function runTimelines(lesson) {
  for (const figure of /** @type {NodeListOf<HTMLElement>} */ (lesson.querySelectorAll(".timeline"))) run(figure);
}
