"""The recipes that ship: where a training begins. What an agent of the zoo went through is in its entry's command."""

from dataclasses import replace

from a3c_core.recipe import Phase, Recipe

ATARI = {
    "encoder": "a3c",
    "layer_norm": True,
    "head_layers": (),
    "reward_clip": 1.0,
    "normalize_advantages": False,
    "precision": "bfloat16",
}
"""What Atari's games begin with: rewards are rare, and advantages normalised over short rollouts are mostly noise."""

FRAME_PASSES = {
    "envs_per_worker": 8,
    "n_steps": (128,),
    "passes": 3,
    "minibatches": 4,
    "clip_ratio": 0.1,
    "gae_lambda": 0.95,
    "normalize_advantages": True,
    "learning_rate": 5e-4,
}
"""Several clipped passes over each rollout of frames; the rollouts are long enough to normalise advantages."""

STICKY = {
    "steps": 5_000_000,
    "sticky_actions": (0.25,),
    "life_loss_ends_return": True,
    "encoder": "residual",
    "average_decay": 0.999,
}
"""Atari's games with lives, by the sticky protocol; the averaged weights are the ones to keep."""

PASSES = {
    "envs_per_worker": 16,
    "n_steps": (128,),
    "passes": 10,
    "minibatches": 16,
    "clip_ratio": 0.2,
    "normalize_observations": True,
    "normalize_rewards": True,
}
"""Several clipped passes over each rollout, and numbers of any scale: what learns in most vector environments."""

PONG = Recipe(
    env="ALE/Pong-v5",
    steps=3_200_000,
    envs_per_worker=8,
    n_steps=(32,),
    pixel_shift=-87.0,
    pixel_scale=3 / 255,
    learning_rate=1e-3,
    **ATARI,
)

PONG_STICKY = replace(
    PONG,
    **FRAME_PASSES,
    steps=8_000_000,
    sticky_actions=(0.5,),
    reward_ends_return=True,
    gamma=0.997,
    schedule=(
        Phase(
            at=3_000_000,
            changes={"sticky_actions": (0.25, 0.5), "gamma": 0.999, "gae_lambda": 0.97, "entropy_cost": 0.005}
            | {"envs_per_worker": 16, "average_decay": 0.9999, "steps": 14_500_000, "learning_rate": 3.15e-4},
        ),
        Phase(at=10_500_000, changes={"sticky_actions": (0.25,)}),
        Phase(at=14_500_000, changes={"gamma": 0.9995, "steps": 19_000_000, "learning_rate": 8.44e-4}),
    ),
)
"""Pong by the sticky protocol. It begins at twice the protocol's stickiness, so that a dash to the ball in the last
moment rarely pays. Then one of two workers keeps that stickiness, and later neither does. The return ends with each
point, so the agent needn't win it soon, and least of all in the last phase. The rate falls from 5e-4, then from 2.5e-4
to 0, and then from 2e-4 to 0."""

BREAKOUT = Recipe(env="ALE/Breakout-v5", **ATARI | FRAME_PASSES | STICKY)

BREAKOUT_STICKY = (
    Phase(
        at=BREAKOUT.steps,
        changes={"envs_per_worker": 16, "entropy_cost": 0.005, "reward_shift": 0.005}
        | {"steps": 11_000_000, "learning_rate": 4.6e-4},
    ),
    Phase(
        at=11_000_000,
        changes={"sticky_actions": (0.0, 0.25), "entropy_cost": 0.002, "reward_shift": 0.01}
        | {"stall_earns_nothing": 300, "steps": 21_000_000, "learning_rate": 4.2e-4},
        fresh_optimizer=True,
    ),
    Phase(at=21_000_000, changes={"entropy_cost": 0.005, "steps": 28_000_000, "learning_rate": 8e-4}),
    Phase(at=28_000_000, changes={"entropy_cost": 0.01, "steps": 40_000_000, "learning_rate": 8.333e-4}),
)
"""What follows where Breakout has been learnt: larger batches, less entropy, and rates that begin at 2.5e-4, 2e-4, 2e-4
and 2.5e-4 and fall to 0. Each step is worth points, which is a reason to keep the ball in play where the last bricks
are rarely hit. Later a step of a stall is worth nothing, and one of two workers learns without sticky actions, where
the ball can fly in circles. The last two phases raise the entropy again, since chance can break a circle."""

SPACE_INVADERS = Recipe(env="ALE/SpaceInvaders-v5", **ATARI | FRAME_PASSES | STICKY)

SPACE_INVADERS_STICKY = (
    Phase(
        at=2_000_000,
        changes={"envs_per_worker": 16, "minibatches": 2, "gamma": 0.995, "gae_lambda": 0.97, "entropy_cost": 0.005}
        | {"steps": 10_000_000, "learning_rate": 5e-4},
    ),
    Phase(at=10_000_000, changes={"steps": 20_000_000, "learning_rate": 4e-4}),
    Phase(
        at=20_000_000,
        changes={"reward_scale": 0.05, "reward_clip": None, "steps": 30_000_000, "learning_rate": 6e-4},
    ),
    Phase(
        at=25_000_000,
        changes={"workers": 8, "envs_per_worker": 32, "n_steps": (64,), "minibatches": 1, "entropy_cost": 0.003}
        | {"steps": 40_500_000, "learning_rate": 6.55e-4},
    ),
    Phase(at=40_500_000, changes={"steps": 43_200_000, "learning_rate": 1.75e-3}),
    Phase(at=43_200_000, changes={"steps": 50_500_000, "learning_rate": 1.11e-3}),
)
"""What follows where the first wave has been learnt: gradients of more steps, a longer horizon and less entropy. From
20M steps on the learner sees points, not their signs, so that a mother ship is worth more than an invader. The rate of
each phase begins at 4e-4, 2e-4, 2e-4, 2.5e-4, 1.1e-4 and 1.6e-4, and falls."""

RECIPES: dict[str, Recipe] = {
    "cartpole": Recipe(
        env="CartPole-v1",
        steps=400_000,
        envs_per_worker=16,
        n_steps=(24,),
        gae_lambda=0.99,
        learning_rate=3e-3,
        entropy_cost=0.03,
        reward_scale=0.1,
    ),
    "pendulum": Recipe(
        env="Pendulum-v1",
        steps=4_000_000,
        envs_per_worker=16,
        n_steps=(25,),
        initial_std=3.0,
        gamma=0.97,
        gae_lambda=0.9,
        learning_rate=1e-3,
        entropy_cost=0.0,
        max_gradient_norm=1.0,
        reward_shift=8.0,
        reward_scale=1 / 8,
    ),
    "pong": PONG,
    "pong_sticky": PONG_STICKY,
    "breakout": BREAKOUT,
    "breakout_sticky": replace(BREAKOUT, schedule=BREAKOUT_STICKY, sampling_temperature=1.1),
    "space_invaders": SPACE_INVADERS,
    "space_invaders_sticky": replace(SPACE_INVADERS, schedule=SPACE_INVADERS_STICKY, sampling_temperature=0.35),
    "bipedal_walker": Recipe(
        env="BipedalWalker-v3", steps=5_000_000, **PASSES | {"learning_rate": 3e-4, "entropy_cost": 0.0}
    ),
    "bipedal_walker_hardcore": Recipe(
        env="BipedalWalkerHardcore-v3",
        steps=25_000_000,
        head_layers=(128, 128),
        **PASSES | {"passes": 5, "minibatches": 8, "learning_rate": 5e-4, "entropy_cost": 0.001, "reward_clip": 0.5},
    ),
}


def recipes_of(env: str) -> list[str]:
    """The names of the recipes that ship for an environment, its usual one first."""
    return [name for name, recipe in RECIPES.items() if recipe.env == env]
