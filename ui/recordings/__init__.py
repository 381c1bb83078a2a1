"""Games recorded as files, which a page shows without anything being played for it."""
