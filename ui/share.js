// Handing a link on: by the system's own sheet on phones that have one, else through the clipboard.

/** Whether there is such a sheet. */
export const SHEET = Boolean(/** @type {any} */ (navigator).share) && matchMedia("(pointer: coarse)").matches;

/**
 * Hands a link on, with what is said of it, and resolves to whether it was.
 * @param {string} url
 * @param {string} text
 * @returns {Promise<"shared" | "copied" | "kept">}
 */
export async function share(url, text = "") {
  try {
    if (SHEET) {
      await navigator.share({ url, ...(text ? { text } : {}) });
      return "shared";
    }
  } catch (error) {
    if (error.name === "AbortError") return "shared"; // the visitor has thought better of it
  }
  try {
    await navigator.clipboard.writeText(`${text} ${url}`.trim());
    return "copied";
  } catch {
    return "kept";
  }
}
