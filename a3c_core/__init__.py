"""A3C (Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning") as a library.

Read it in this order:
recipe, spaces, atari, envs, normalization, model, devices, activity, rollout, off_policy, loss, passes, optim, shared,
handover, worker, agent, migrations, checkpoint, evaluation.
Each file imports only from those before it.
"""
