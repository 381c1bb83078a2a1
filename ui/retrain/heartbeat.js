// Runs once. Tells the server that the page is there, one question after another, while the training that is its value
// goes on: a network that is lost says no goodbye (see ui/retrain/routes.py).
import { base } from "../gradio_internals.js";

/** @param {import("../chunk.js").Host} host */
export function mount({ element, props, watch }) {
  const TOO_LONG = 2000; // milliseconds without an answer, which takes a third of a second
  const AGAIN = 300; // milliseconds after a question that came to nothing
  let present = "";

  async function stay(run) {
    if (!run || run === present) return;
    present = run;
    while (run === present && element.isConnected) {
      try {
        const answer = await fetch(`${base}/arcade/training/here?id=${encodeURIComponent(run)}`, {
          method: "POST",
          signal: /** @type {any} */ (AbortSignal).timeout(TOO_LONG),
        });
        if ((await answer.json()).over) return;
      } catch {
        await new Promise((wake) => setTimeout(wake, AGAIN));
      }
    }
  }

  watch("value", () => stay(props.value));
  stay(props.value);
}
