"""The Retrain tab: visitors train agents, and publish them."""
