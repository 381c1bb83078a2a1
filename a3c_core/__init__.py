"""A3C (Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning") as a library.

Read it in this order:
recipe, atari, envs, model, agent, activation_cache, rollout, loss, optim, allocator, worker,
migrations, checkpoint, evaluation.
Each file imports only from those before it.
"""
