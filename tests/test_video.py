"""Games become videos that browsers play."""

import subprocess

import imageio.v3 as iio
import imageio_ffmpeg
import numpy as np
import pytest

from a3c_core.agent import Agent
from a3c_core.recipe import Recipe
from playback.episode import RenderedEpisode, play, render
from playback.video import write_mp4


def plain_colours(height, width, frames=5):
    """Pictures of one colour each, every one lighter than the one before."""
    pictures = np.full((frames, height, width, 3), 20, dtype=np.uint8)
    pictures += np.linspace(0, 200, frames).astype(np.uint8)[:, None, None, None]
    return list(pictures)


def told_by_ffmpeg(path):
    return subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)], capture_output=True, text=True).stderr


def test_a_game_becomes_h264_with_all_its_pictures(tmp_path):
    agent = Agent.untrained(Recipe())
    game = play(agent, 1)
    pictures = list(render(agent, game).pictures)
    write_mp4(render(agent, game), tmp_path / "game.mp4", title="CartPole", comment="")
    frames = iio.imread(tmp_path / "game.mp4", plugin="FFMPEG")
    assert frames.shape == (len(game.actions) + 1, 400, 600, 3)
    np.testing.assert_allclose(frames[-1].mean(), pictures[-1].mean(), atol=3)
    assert np.abs(frames[0].astype(int) - frames[-1]).max() > 100
    about = iio.immeta(tmp_path / "game.mp4", plugin="FFMPEG")
    assert (about["codec"], about["fps"], about["size"]) == ("h264", 50, (600, 400))
    assert about["pix_fmt"].startswith("yuv420p")


def test_title_and_comment_are_in_the_file(tmp_path):
    pictures = RenderedEpisode(iter(plain_colours(16, 16)), 30)
    write_mp4(pictures, tmp_path / "game.mp4", title="A3C Arcade: 'quoted' = é", comment="seed 12, return 6; ½ = é")
    told = told_by_ffmpeg(tmp_path / "game.mp4")
    assert "title           : A3C Arcade: 'quoted' = é" in told
    assert "comment         : seed 12, return 6; ½ = é" in told


@pytest.mark.parametrize(
    ("size", "pixel", "padded"),
    [
        ((15, 20), (1, 1), (16, 20)),
        ((16, 21), (1, 1), (16, 22)),
        ((210, 160), (1, 1), (210, 160)),
        ((15, 21), (3, 2), (46, 42)),
    ],
)
def test_an_odd_side_is_padded_by_one_pixel_and_an_even_one_kept(tmp_path, size, pixel, padded):
    pictures = plain_colours(*size)
    write_mp4(RenderedEpisode(iter(pictures), 30, pixel), tmp_path / "game.mp4", title="odd", comment="")
    frames = iio.imread(tmp_path / "game.mp4", plugin="FFMPEG")
    assert frames.shape == (5, *padded, 3)
    shown = frames[:, : size[0] * pixel[0] - 2, : size[1] * pixel[1] - 2].mean(axis=(1, 2, 3))
    np.testing.assert_allclose(shown, np.mean(pictures, axis=(1, 2, 3)), atol=6)


def test_the_wide_pixels_of_atari_fill_a_screen_of_four_to_three_and_stay_sharp(tmp_path):
    picture = np.random.default_rng(0).choice([40, 215], size=(210, 160, 1)).astype(np.uint8).repeat(3, axis=2)
    write_mp4(RenderedEpisode(iter([picture] * 3), 30, (4, 7)), tmp_path / "game.mp4", title="noise", comment="")
    frames = iio.imread(tmp_path / "game.mp4", plugin="FFMPEG")
    assert frames.shape == (3, 840, 1120, 3)
    blocks = frames[-1].mean(axis=2).reshape(210, 4, 160, 7).transpose(0, 2, 1, 3)
    error = np.abs(blocks - picture[:, :, :1, None])
    assert error.mean() < 10
    assert (error.max(axis=(2, 3)) < (215 - 40) / 2).mean() > 0.99


def test_a_small_video_tells_players_how_wide_its_pixels_are(tmp_path):
    picture = np.random.default_rng(0).choice([40, 215], size=(210, 160, 1)).astype(np.uint8).repeat(3, axis=2)
    write_mp4(
        RenderedEpisode(iter([picture] * 3), 30, (4, 7)), tmp_path / "game.mp4", title="noise", comment="", small=True
    )
    assert iio.imread(tmp_path / "game.mp4", plugin="FFMPEG").shape == (3, 420, 320, 3)
    assert "320x420 [SAR 7:4 DAR 4:3]" in told_by_ffmpeg(tmp_path / "game.mp4")


def test_a_place_that_cannot_be_written_is_an_oserror(tmp_path):
    with pytest.raises(OSError):  # noqa: PT011
        write_mp4(
            RenderedEpisode(iter(plain_colours(16, 16)), 30),
            tmp_path / "nowhere" / "game.mp4",
            title="lost",
            comment="",
        )
