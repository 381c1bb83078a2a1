// Runs once. Pictures of games that play while the mouse or the focus is on them, and links to agents that open in place.
import { onReturn, tell } from "../address.js";
import { opened, paint, unpacked } from "../chunk.js";
import { server } from "../watch/live.js";

/**
 * @param {import("../chunk.js").Host} host
 * @param {Pick<import("../watch/position.js").Source, "chunk">} source of the games
 */
export function mount({ element, watch, trigger }, source = server) {
  if (!element.isConnected) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const WAIT = 150; // milliseconds: a mouse that only passes starts nothing
  const PARTS = 8; // chunks of a second until it begins anew
  let playing = null;
  let asked = false;

  const pause = (milliseconds) => new Promise((wake) => setTimeout(wake, milliseconds));

  // --- A few seconds of a game ---

  // A chunk of the game, or null past its end.
  async function part(mine, n) {
    while (playing === mine) {
      const answer = await source.chunk({ agent: mine.box.dataset.agent }, n, 0, mine.stopper.signal);
      if (answer.status === 200) return opened(answer.buffer);
      if (answer.status === 204) return null;
      if (answer.status !== 202) throw new Error("this game cannot be shown now");
    }
    return null;
  }

  // The same, for later: where nobody waits for it any more, nobody is told that it did not come.
  function askFor(mine, n) {
    const answer = part(mine, n);
    answer.catch(() => {});
    return answer;
  }

  // Draws the pictures of one chunk at their pace; `begun` is when its first was due. Resolves to when the next is.
  async function show(mine, { data }, about, begun) {
    const pictures = await unpacked(data, about.width * about.height);
    const count = pictures.frames.length / pictures.size;
    const start = Math.max(begun, performance.now() - 250);
    for (let drawn = -1; playing === mine && mine.box.isConnected; ) {
      const due = Math.floor(((performance.now() - start) / 1000) * about.rate);
      if (due >= count) break;
      if (due > drawn) paint(mine.canvas, pictures, (drawn = Math.max(0, due)));
      mine.box.dataset.state = "playing";
      await new Promise(requestAnimationFrame);
    }
    return start + (1000 * count) / about.rate;
  }

  async function play(box) {
    if (playing?.box === box) return;
    stop();
    const mine = (playing = { box, canvas: box.querySelector("canvas"), stopper: new AbortController() });
    box.dataset.state = "starting";
    try {
      await pause(WAIT);
      const about = (await part(mine, 0))?.header.game;
      if (!about) return;
      Object.assign(mine.canvas, { width: about.width, height: about.height });
      let first = Number(box.dataset.first);
      let next = askFor(mine, first);
      let due = performance.now();
      for (let n = first; playing === mine && box.isConnected; ) {
        let now = await next;
        if (!now && n === first && first > 0) now = await part(mine, (n = first = 0)); // the game was over before
        n = !now || now.header.over || n + 1 >= first + PARTS ? first : n + 1;
        next = askFor(mine, n);
        if (now) due = await show(mine, now, about, due);
      }
    } catch {
      // Gone, full or without a network: the still picture stays.
    } finally {
      if (playing === mine) stop();
    }
  }

  function stop() {
    if (!playing) return;
    playing.stopper.abort();
    delete playing.box.dataset.state;
    playing = null;
  }

  /** @returns {HTMLElement | null} */
  const boxOf = (/** @type {any} */ target) => target?.closest?.(".replay");

  element.addEventListener("pointerover", (event) => {
    if (boxOf(event.target) && event.pointerType === "mouse" && !still) play(boxOf(event.target));
  });
  element.addEventListener("pointerout", (event) => {
    const box = boxOf(event.target);
    if (box && event.pointerType === "mouse" && boxOf(event.relatedTarget) !== box) stop();
  });
  element.addEventListener("focusin", (event) => {
    if (boxOf(event.target)?.matches(":focus-visible") && !still) play(boxOf(event.target));
  });
  element.addEventListener("focusout", (event) => boxOf(event.target) && stop());

  // --- Agents ---

  // Shows the agent of that name, or all where there is none.
  function open(name) {
    asked = true;
    stop();
    trigger("select", { name });
  }

  element.addEventListener("click", (/** @type {any} */ event) => {
    const box = boxOf(event.target);
    const hovered = event.pointerType === "mouse" && !still; // it plays already
    if (box) return playing?.box === box && !hovered ? stop() : play(box);
    const copy = event.target.closest(".copy");
    if (copy) return copied(copy);
    const link = event.target.closest("a[data-zoo]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    tell("zoo", { zoo: link.dataset.zoo });
    open(link.dataset.zoo);
  });

  tell("zoo", { zoo: new URL(location.href).searchParams.get("zoo") ?? "" });
  onReturn("zoo", (query) => open(query.get("zoo") ?? ""));

  async function copied(button) {
    try {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text and copy it";
    }
  }

  watch("value", () => {
    if (!asked) return;
    asked = false;
    const heading = /** @type {HTMLElement} */ (element.querySelector("header h2"));
    heading?.focus({ preventScroll: true });
    element.scrollIntoView({ block: "start" });
  });
}
