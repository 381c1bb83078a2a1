"""Training: the recipes, the parent process of a run, and the command line `python -m training`."""
