"""A3C (Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning") as a library.

Read it in this order:
recipe, spaces, atari, envs, normalization, model, activation_cache, rollout, loss, optim, shared, handover,
allocator, worker, agent, migrations, checkpoint, evaluation.
Each file imports only from those before it.
"""
