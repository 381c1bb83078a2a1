// What the scripts know of Gradio that Gradio does not promise; ui/gradio_internals.py has the rest, and says why.

/** The root of the server that the page comes from; empty in the static arcade. */
export const base = (/** @type {any} */ (globalThis).gradio_config?.root || "").replace(/\/$/, "");

/** What an address calls the theme: Gradio's own choice, which is no part of what is shown. */
export const THEME = "__theme";

/** The tab that the page has in front; undefined where it has no tabs. */
export const tabInFront = () => /** @type {HTMLElement | null} */ (document.querySelector("[data-tab-id][aria-selected=true]"))?.dataset.tabId;
