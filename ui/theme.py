"""Theme and style sheet. The fonts are the system's: Gradio's would be 190 kB."""

from pathlib import Path

import gradio as gr
from gradio.themes import Color
from gradio.themes.utils.fonts import Font

from ui.games import GAMES

INK = Color(
    c50="#faf8f4", c100="#f1eee7", c200="#e2ded4", c300="#c9c4b8", c400="#9a958a", c500="#6f6b62",
    c600="#55524b", c700="#3a3834", c800="#232220", c900="#191817", c950="#121211", name="ink",
)  # fmt: skip
"""Greys with a little warmth, as of paper and of a switched-off screen."""


class SystemFont(Font):
    """A keyword of CSS for a font that the system chooses. Gradio puts it in quotes, and would ask for that name."""

    def __str__(self) -> str:
        return self.name


THEME = gr.themes.Base(
    primary_hue=INK,
    secondary_hue=INK,
    neutral_hue=INK,
    radius_size=gr.themes.sizes.radius_sm,
    font=[SystemFont("system-ui"), "sans-serif"],
    font_mono=[SystemFont("ui-monospace"), "DejaVu Sans Mono", "monospace"],
).set(
    body_background_fill="*neutral_50",
    body_background_fill_dark="*neutral_950",
    body_text_color="*neutral_800",
    body_text_color_dark="*neutral_100",
    body_text_color_subdued="*neutral_500",
    body_text_color_subdued_dark="*neutral_400",
    background_fill_primary="*neutral_50",
    background_fill_primary_dark="*neutral_950",
    block_background_fill="transparent",
    block_background_fill_dark="transparent",
    block_border_width="0px",
    block_border_width_dark="0px",
    block_shadow="none",
    block_padding="0px",
    block_label_background_fill="transparent",
    block_title_text_weight="700",
    block_title_text_color="*neutral_800",
    block_title_text_color_dark="*neutral_100",
    block_title_background_fill="transparent",
    block_title_padding="0px",
    checkbox_label_background_fill="transparent",
    checkbox_label_background_fill_dark="transparent",
    block_info_text_size="*text_sm",
    panel_background_fill="transparent",
    panel_background_fill_dark="transparent",
    input_background_fill="white",
    input_background_fill_dark="*neutral_900",
    input_border_width="1px",
    input_border_width_dark="1px",
    input_placeholder_color="*neutral_500",
    input_placeholder_color_dark="*neutral_400",
    input_shadow="none",
    input_shadow_focus="none",
    button_primary_text_color="white",
    button_primary_text_color_dark="*neutral_950",
    button_transition="none",
)


def _accents() -> str:
    """One colour per game: whatever shows a game colours its cabinet or card; `glow` is for the dark bezel."""
    rules = []
    for env, game in GAMES.items():
        places = (f'.cabinet:has([data-game="{env}"])', f'.card[data-game="{env}"]')
        rules += [f"{place} {{ --accent: {game.accent}; --glow: {game.accent_dark}; }}" for place in places]
        rules += [f".dark {place} {{ --accent: {game.accent_dark}; }}" for place in places]
    return "\n".join(rules)


CSS = (Path(__file__).parent / "arcade.css").read_text(encoding="utf-8") + _accents()
