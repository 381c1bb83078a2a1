"""The sections of README.md on the page."""

from statistics import median, quantiles

from benchmarks.text import table, where


def waits(result: dict) -> list[str]:
    """The section on how long a visitor waits."""
    groups: dict[str, dict[str, list[float]]] = {}
    for wait in result["waits"]:
        groups.setdefault(wait["agent"], {}).setdefault(wait["what"], []).append(wait["milliseconds"])
    rows = [
        (
            agent,
            f"{group['cold'][0]:,.0f}",
            *(f"{figure(group[what]):.0f}" for what in ("first picture", "seek") for figure in (median, max)),
        )
        for agent, group in groups.items()
    ]
    stalls, videos = result["stalls"], result["videos"]
    kinds = {True: "watched to its end before", False: "that nobody has watched"}
    downloads = [
        f"{len(group)} whole games of Pong {kind}, {min(steps):,} to {max(steps):,} steps, took "
        f"{median(seconds):.1f} s as a video, the slowest {max(seconds):.1f} s."
        for watched, kind in kinds.items()
        for group in [[video for video in videos if video["watched"] is watched]]
        for steps, seconds in [([video["steps"] for video in group], [video["seconds"] for video in group])]
    ]
    return [
        "## Waiting",
        "`python -m benchmarks.waits` (its first lines tell how). Milliseconds in Chromium on the machine that serves.",
        where(result),
        table(("", "page on a cold server", "first picture, median", "slowest", "seek, median", "slowest"), rows),
        f"{stalls['seconds']:.0f} seconds of Pong stalled {len(stalls['milliseconds'])} times, for "
        f"{sum(stalls['milliseconds']):.0f} ms together. {' '.join(downloads)}",
    ]


def page_weight(result: dict) -> list[str]:
    """The section on what a page costs a browser."""
    pages: dict[tuple[str, str], list[dict[str, float]]] = {}
    for opening in result["openings"]:
        pages.setdefault((opening["page"], opening["commit"]), []).append(opening)
    rows = [
        (
            page,
            commit,
            f"{median(each['requests'] for each in group):.0f}",
            f"{median(each['bytes'] for each in group) / 1000:,.0f}",
            f"{median(each['processor_seconds'] for each in group):.2f}",
            f"{median(each['seconds'] for each in group):.2f}",
            f"{max(each['seconds'] for each in group):.2f}",
        )
        for (page, commit), group in pages.items()
    ]
    return [
        "## What a page weighs",
        "`python -m benchmarks.page_weight` (its first lines tell how). Up to the first picture, in a Chromium that "
        "has nothing of the page yet, on the machine that serves.",
        where(result),
        table(("", "commit", "requests", "kB", "processor, s", "first picture, s", "slowest"), rows),
    ]


def key_to_frame(result: dict) -> list[str]:
    """The section on playing by hand."""
    rows = [
        (name, len(times), *(f"{time:.0f}" for time in (median(times), quantiles(times, n=10)[-1], max(times))))
        for name, times in (("key to picture", result["presses"]), ("picture to picture", result["steps"]))
    ]
    return [
        "## Playing by hand",
        "`python -m benchmarks.key_to_frame` (its first lines tell how). Milliseconds of Pong, whose pictures come "
        "67 ms apart, in Chromium on the machine that serves.",
        where(result),
        table(("", "measured", "median", "90 % within", "slowest"), rows),
    ]


def freed(result: dict) -> list[str]:
    """The section on visitors who go."""
    ways: dict[str, list[float]] = {}
    for end in result["ends"]:
        ways.setdefault(end["way"], []).append(end["seconds"])
    rows = [(way, len(times), *(f"{figure(times):.2f}" for figure in (median, max))) for way, times in ways.items()]
    back = [end["back_seconds"] for end in result["ends"] if end["back_seconds"] is not None]
    return [
        "## Visitors who go",
        "`python -m benchmarks.freed` (its first lines tell how). Seconds until the processes of a training are gone.",
        where(result),
        table(("when", "measured", "median", "slowest"), rows),
        f"Once the network was back, the training went on after {median(back):.2f} s, the slowest {max(back):.2f} s.",
    ]


def load(result: dict) -> list[str]:
    """The section on many visitors."""
    clicks = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result["clicks"].items()))
    taken, times = result["memory_mb"], result["times"]
    first, request = result["first_picture"], result["request"]
    opened = result.get("opened")  # not measured by the load of 2026-11-23
    rows = [
        *(opened_rows(opened) if opened else ()),
        ("visitors who stalled", f"{result['stalled']} of {times * result['visitors']}"),
        ("longest stall of a visitor", f"{result['longest_stall']:.2f} s"),
        (
            "first picture",
            f"{first['median']:.2f} s, slowest {first['slowest']:.2f} s",
        ),
        ("answer to a request", f"{request['median']:.3f} s, 95 % within {request['p95']:.2f} s"),
        (f"{times} times {sum(result['clicks'].values()) // times} clicks at once", clicks),
        ("memory", f"{taken['before']} MB, then after each time {', '.join(map(str, taken['after']))} MB"),
    ]
    return [
        "## Many visitors",
        f"`python -m benchmarks.load` (its first lines tell how). {result['visitors']} visitors watch Pong and "
        f"Breakout for {result['seconds']:.0f} seconds at the games' own speed, ten games among them; then come "
        f"the clicks. Both happen {times} times, each time with other games.",
        where(result),
        table(("", ""), rows),
    ]


def opened_rows(opened: dict) -> list[tuple[str, str]]:
    """What pages that are opened at once wait for their first picture."""
    many = f"{opened['pages']} pages opened within {opened['within']:.0f} s, of {opened['requests']} requests each"
    beside = f"the same while one visitor asks for {opened['backlog']} videos at once, again and again"
    return [(many, picture_after(opened["alone"])), (beside, picture_after(opened["beside"]))]


def picture_after(wait: dict) -> str:
    """How long pages waited for their first picture, in words."""
    figures = f"median {wait['median']:.2f} s, 95 % within {wait['p95']:.2f} s, slowest {wait['slowest']:.2f} s"
    return f"first picture: {figures}; {wait['lost']} pages got none"


def endurance(result: dict) -> list[str]:
    """The section on growth."""
    columns = ("after", "memory_mb", "chunks_mb", "threads", "open_files", "files_mb")
    return [
        "## Endurance",
        "`python -m benchmarks.endurance` (its first lines tell how). The server's process, after visitors who came "
        "one after the other. Its memory grows with the chunks of games, which are kept up to a limit for who watches "
        "the same next, and with the games under way, sixteen at most, each with emulators of its own.",
        where(result),
        table(
            ("after", "memory, MiB", "of it chunks", "threads", "open files", "temporary files, MiB"),
            ([state[column] for column in columns] for state in result["states"]),
        ),
    ]
