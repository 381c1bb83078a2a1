"""Films as video files that browsers play."""

from pathlib import Path

import imageio.v2 as iio

from a3c_core.play import Film


def write_mp4(film: Film, path: Path, *, title: str, comment: str) -> None:
    """Writes H.264 in yuv420p, with `title` and `comment` in the file's metadata. Raises OSError.

    Pixels stay sharp: each becomes whole rows and columns. A picture whose height or width is odd then is padded by one
    pixel, since H.264 wants even ones.
    """
    rows, columns = film.pixel
    filters = f"scale=iw*{columns}:ih*{rows}:flags=neighbor,pad=ceil(iw/2)*2:ceil(ih/2)*2"
    with iio.get_writer(
        path,
        format="FFMPEG",
        mode="I",
        fps=film.frames_per_second,
        codec="libx264",
        pixelformat="yuv420p",
        macro_block_size=1,
        output_params=[
            *("-vf", filters, "-preset", "veryfast", "-movflags", "+faststart"),
            *("-metadata", f"title={title}", "-metadata", f"comment={comment}"),
        ],
    ) as video:
        for picture in film.pictures:
            video.append_data(picture)
