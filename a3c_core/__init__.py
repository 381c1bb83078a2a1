"""A3C (Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning") as a library.

Read it in this order:
recipe, atari, envs, nudge, model, agent, recall, rollout, loss, optim, malloc, worker, checkpoint, play, saliency,
video.
Each file imports only from those before it.
"""
