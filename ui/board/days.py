"""The seed of the day: its date in UTC as a number, 20261124, which everybody has and everybody can read."""

from datetime import UTC, date, datetime, timedelta

GRACE = timedelta(hours=1)
"""So long after midnight a game of the day before may still come: its visitor has begun it in time."""


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


def today() -> date:
    """The day, in UTC."""
    return now().date()


def open_days() -> set[date]:
    """The days whose boards take games."""
    return {today(), (now() - GRACE).date()}


def seed_of(day: date) -> int:
    """The seed of a day."""
    return int(f"{day:%Y%m%d}")


def day_of(seed: int) -> date | None:
    """The day whose seed that is; None where it is no day's."""
    try:
        return date(seed // 10_000, seed // 100 % 100, seed % 100)
    except ValueError:
        return None
