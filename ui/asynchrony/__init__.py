"""A3C against A2C as it was measured: the numbers, what they say, and how they are drawn. Empty where nothing was."""
