"""The recipes that made the zoo."""

from a3c_core.recipe import Recipe

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
        encoder="a3c",
        pixel_shift=-87.0,
        pixel_scale=3 / 255,
        layer_norm=True,
        head_layers=(),
        reward_clip=1.0,
        learning_rate=1e-3,
        precision="bfloat16",
    ),
}
