"""The Watch tab: agents of the zoo, and anybody's from the Hub, play."""
