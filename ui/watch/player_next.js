// Attract mode: a game that has played to its end is followed by another one, unless the visitor chose otherwise.

const PAUSE = 5000; // milliseconds from the end of a game to the next one
const UNATTENDED = 12; // games in a row without a visitor who touches anything
const SETTING = "a3c-arcade-autoplay";

/**
 * Opens another game after the end of one. `another` finds the button that does so; without one nothing follows.
 * @param {{ button: (label: string, text: string, act: () => void) => HTMLButtonElement, still: boolean,
 *   another: () => HTMLElement | null, here: AbortSignal }} player
 */
export function makeNext({ button, still, another, here }) {
  let due = Infinity; // when the next game begins
  let unattended = 0;
  let on = setting() ?? !still;
  const toggle = button("Autoplay", "Auto", () => {
    on = !on;
    keep(on);
    show();
  });
  const show = () => toggle.setAttribute("aria-pressed", String(on));
  show();
  toggle.hidden = !another();
  for (const touch of ["pointerdown", "keydown"]) {
    const attend = () => {
      due = Infinity;
      unattended = 0;
    };
    document.addEventListener(touch, attend, { signal: here, capture: true });
  }

  return {
    toggle,
    /** A game has played to its end at this time. */
    ended(now) {
      if (on && unattended < UNATTENDED && another()) due = now + PAUSE;
    },
    /** What is said while a game is due; opens it when its time has come. */
    news(now) {
      if (due === Infinity) return "";
      if (now < due) return "Another game begins in a moment. Press any key to stay here.";
      due = Infinity;
      unattended += 1;
      another()?.click();
      return "";
    },
  };
}

function setting() {
  try {
    const kept = localStorage.getItem(SETTING);
    return kept === null ? null : kept === "on";
  } catch {
    return null; // the browser keeps nothing for this page
  }
}

function keep(on) {
  try {
    localStorage.setItem(SETTING, on ? "on" : "off");
  } catch {
    // then it holds for this visit
  }
}
