// What a visitor's fingers hold while playing: keys, and buttons for thumbs.
import { make } from "../chunk.js";

/** @type {Record<string, string>} */
export const KEYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", " ": "fire" };
const SIGNS = { left: "←", right: "→", up: "↑", down: "↓", fire: "Fire" };

/**
 * Hands that hold nothing yet. Their `thumbs` are the buttons, which `lay` makes.
 * @param {{ changed: () => void, touched: () => void }} player `changed` is called when something else is held,
 *   `touched` when a thumb comes down
 */
export function makeHands({ changed, touched }) {
  /** @type {string[]} */
  let held = [];
  const thumbs = make("div", "thumbs", "", { role: "group", "aria-label": "Controls" });
  const fingers = new Map();

  function hold(words) {
    held = words;
    for (const button of thumbs.querySelectorAll("button")) button.classList.toggle("held", held.includes(button.dataset.word));
  }

  function press(word) {
    if (held.includes(word)) return;
    hold([...held, word]);
    changed();
  }

  function release(word) {
    if (!held.includes(word)) return;
    hold(held.filter((other) => other !== word));
    changed();
  }

  // A thumb may slide from one button to the next; each finger holds the button under it.
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
    touched();
    finger(event);
  });
  thumbs.addEventListener("pointermove", (event) => fingers.has(event.pointerId) && finger(event));
  for (const kind of ["pointerup", "pointercancel"]) thumbs.addEventListener(kind, (event) => lift(event));
  for (const kind of ["mousedown", "contextmenu"]) thumbs.addEventListener(kind, (event) => event.preventDefault());

  return {
    thumbs,
    press,
    release,
    /** What is held, the latest last. */
    held: () => held,
    /** Holds nothing any more, and tells nobody. */
    drop: () => hold([]),
    /** @param {string[]} words a button for each */
    lay(words) {
      thumbs.replaceChildren(
        ...words.map((word) => make("button", "thumb", SIGNS[word], { type: "button", tabindex: -1, "data-word": word, "aria-label": word })),
      );
    },
  };
}
