"""Names of visitors, as they may stand on a page that everybody sees."""

import unicodedata

MOST_LETTERS = 24
MOST_READ = 200
"""Of what was sent: normalising may make eighteen letters of one."""
NOBODY = "anonymous"
BLANK = dict.fromkeys(map(ord, "\u115f\u1160\u2800"))
"""Letters without ink."""


def cleaned(text: str) -> str:
    """A name on one line that leaves the text around it alone: without control and format characters."""
    letters = unicodedata.normalize("NFKC", " ".join(text[:MOST_READ].split())).translate(BLANK)
    printed = "".join(letter for letter in letters if unicodedata.category(letter)[0] != "C")
    return " ".join(printed.split())[:MOST_LETTERS].strip() or NOBODY
