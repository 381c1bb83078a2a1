"""Games become videos that browsers play."""

import subprocess

import imageio.v3 as iio
import imageio_ffmpeg
import numpy as np
import pytest

from a3c_core.agent import Agent
from a3c_core.play import Episode, play
from a3c_core.recipe import Recipe
from a3c_core.video import write_mp4


def episode(height, width, frames=5):
    """A game of plain colours, each frame lighter than the one before."""
    pictures = np.full((frames, height, width, 3), 20, dtype=np.uint8)
    pictures += np.linspace(0, 200, frames).astype(np.uint8)[:, None, None, None]
    steps = np.ones(frames - 1)
    return Episode(12, list(pictures), 30, steps, steps, steps, steps * 1.5)


def told_by_ffmpeg(path):
    return subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)], capture_output=True, text=True).stderr


def test_a_game_becomes_h264_with_all_its_frames(tmp_path):
    game = play(Agent.untrained(Recipe()), 1)
    write_mp4(game, tmp_path / "game.mp4", title="CartPole")
    frames = iio.imread(tmp_path / "game.mp4", plugin="FFMPEG")
    assert frames.shape == (len(game.frames), *game.frames[0].shape)
    np.testing.assert_allclose(frames[-1].mean(), game.frames[-1].mean(), atol=3)
    assert np.abs(frames[0].astype(int) - frames[-1]).max() > 100
    about = iio.immeta(tmp_path / "game.mp4", plugin="FFMPEG")
    assert (about["codec"], about["fps"], about["size"]) == ("h264", 50, (600, 400))
    assert about["pix_fmt"].startswith("yuv420p")


def test_title_seed_and_return_are_in_the_file(tmp_path):
    write_mp4(episode(16, 16), tmp_path / "game.mp4", title="A3C Arcade: 'quoted' = é")
    told = told_by_ffmpeg(tmp_path / "game.mp4")
    assert "title           : A3C Arcade: 'quoted' = é" in told
    assert "comment         : seed 12, return 6" in told


@pytest.mark.parametrize(("size", "padded"), [((15, 20), (16, 20)), ((16, 21), (16, 22)), ((210, 160), (210, 160))])
def test_an_odd_side_is_padded_by_one_pixel_and_an_even_one_kept(tmp_path, size, padded):
    game = episode(*size)
    write_mp4(game, tmp_path / "game.mp4", title="odd")
    frames = iio.imread(tmp_path / "game.mp4", plugin="FFMPEG")
    assert frames.shape == (5, *padded, 3)
    shown = frames[:, : size[0] - 2, : size[1] - 2].mean(axis=(1, 2, 3))
    np.testing.assert_allclose(shown, np.mean(game.frames, axis=(1, 2, 3)), atol=6)


def test_a_place_that_cannot_be_written_is_an_oserror(tmp_path):
    with pytest.raises(OSError):  # noqa: PT011
        write_mp4(episode(16, 16), tmp_path / "nowhere" / "game.mp4", title="lost")
