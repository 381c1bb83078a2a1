"""Boards: the best games of the seed of the day, of visitors and of agents, each played again by the server."""
