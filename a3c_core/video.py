"""Episodes as video files that browsers play."""

from pathlib import Path

import imageio.v2 as iio

from a3c_core.play import Episode


def write_mp4(episode: Episode, path: Path, *, title: str) -> None:
    """Writes H.264 in yuv420p, with `title` and the return in the file's metadata. Raises OSError.

    The picture keeps its size; an odd width or height is padded by one pixel, since H.264 wants even ones.
    """
    metadata = ["-metadata", f"title={title}", "-metadata", f"comment=seed {episode.seed}, return {episode.total:g}"]
    pad = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-movflags", "+faststart"]
    with iio.get_writer(
        path,
        format="FFMPEG",
        mode="I",
        fps=episode.frames_per_second,
        codec="libx264",
        pixelformat="yuv420p",
        macro_block_size=1,
        output_params=[*pad, *metadata, "-preset", "veryfast"],
    ) as video:
        for frame in episode.frames:
            video.append_data(frame)
