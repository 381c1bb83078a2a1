"""Rendered episodes as video files that browsers play."""

from pathlib import Path

import imageio.v2 as iio

from playback.episode import RenderedEpisode


def write_mp4(episode: RenderedEpisode, path: Path, *, title: str, comment: str, small: bool = False) -> None:
    """Writes H.264 in yuv420p, with `title` and `comment` in the file's metadata. Raises OSError.

    Pixels stay sharp: each becomes whole rows and columns. A picture whose height or width is odd then is padded by one
    pixel, since H.264 wants even ones. Where it is to be `small`, pixels that are not square become two rows and
    columns, and the file tells players how much wider than high they are: four times as fast, less sharp when enlarged.
    """
    rows, columns, wider = *episode.pixel, "1"
    if small and rows != columns:
        rows, columns, wider = 2, 2, f"{columns}/{rows}"
    filters = f"scale=iw*{columns}:ih*{rows}:flags=neighbor,pad=ceil(iw/2)*2:ceil(ih/2)*2,setsar={wider}"
    with iio.get_writer(
        path,
        format="FFMPEG",
        mode="I",
        fps=episode.frames_per_second,
        codec="libx264",
        pixelformat="yuv420p",
        macro_block_size=1,
        output_params=[
            *("-vf", filters, "-preset", "ultrafast", "-movflags", "+faststart"),
            *(("-threads", "1") if small else ()),  # threads that share a small picture wait for each other
            *("-metadata", f"title={title}", "-metadata", f"comment={comment}"),
        ],
    ) as video:
        for picture in episode.pictures:
            video.append_data(picture)
