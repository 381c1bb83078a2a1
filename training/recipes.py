"""The recipes that made the zoo."""

import shlex

from a3c_core.recipe import Recipe

ATARI = {
    "encoder": "a3c",
    "layer_norm": True,
    "head_layers": (),
    "reward_clip": 1.0,
    "precision": "bfloat16",
}
"""What the recipes of Atari's games have in common."""

LIVES = {
    "steps": 20_000_000,
    "life_loss_ends_return": True,
    "envs_per_worker": 16,
    "n_steps": (8,),
    "gae_lambda": 0.98,
    "normalize_advantages": False,
    "learning_rate": 5e-4,
}
"""What the games with lives have in common: rewards are rare at first, and normalised advantages mostly noise."""

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
    "pong": Recipe(
        env="ALE/Pong-v5",
        steps=2_500_000,
        envs_per_worker=8,
        n_steps=(32,),
        pixel_shift=-87.0,
        pixel_scale=3 / 255,
        learning_rate=1e-3,
        **ATARI,
    ),
    "breakout": Recipe(env="ALE/Breakout-v5", **ATARI, **LIVES),
    "space_invaders": Recipe(env="ALE/SpaceInvaders-v5", **ATARI, **LIVES),
}


def command_of(name: str, recipe: Recipe) -> str:
    """The command that trains `recipe`: the shipped recipe of that name, or of its environment, and what differs."""
    fitting = [shipped for shipped in RECIPES if RECIPES[shipped].env == recipe.env]
    if not fitting:
        raise ValueError(
            f"no shipped recipe trains {recipe.env}: give the command that trained the agent with --command"
        )
    name = name if name in fitting else fitting[0]
    shipped = RECIPES[name]
    options = []
    for field in recipe.__dataclass_fields__:
        value = getattr(recipe, field)
        if value != getattr(shipped, field):
            flag = field.replace("_", "-")
            if isinstance(value, bool):
                options.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                values = value if isinstance(value, tuple) else (value,)
                options += [f"--{flag}", *map(str, values)]
    return shlex.join(["python", "-m", "training", "train", name, *options])
