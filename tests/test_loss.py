"""The mathematics against sums written out in NumPy and numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from a3c_core.loss import Batch, a3c_loss, advantages, batch_of
from a3c_core.model import build_model
from a3c_core.off_policy import truncated_ratios
from a3c_core.passes import batches, minibatches, vtrace_advantages
from a3c_core.rollout import Rollout
from tests import toy

T, B, GAMMA = 8, 4, 0.9


def random_batch():
    """Rewards, values and discounts with episode ends on both edges and inside."""
    random = np.random.default_rng(0)
    discounts = np.full((T, B), GAMMA)
    discounts[3, 0] = discounts[0, 1] = discounts[7, 2] = discounts[4, 2] = discounts[5, 2] = 0.0
    return random.normal(size=(T, B)), random.normal(size=(T + 1, B)), discounts


def n_step_returns(rewards, values, discounts):
    """R_t = sum over k of (product of the discounts before t+k) r_t+k, and the last value after all of them."""
    returns = np.zeros((T, B))
    for t in range(T):
        for k in range(t, T):
            returns[t] += discounts[t:k].prod(axis=0) * rewards[k]
        returns[t] += discounts[t:].prod(axis=0) * values[T]
    return returns


def generalized_advantages(rewards, values, discounts, gae_lambda):
    """The weighted mean of all k-step advantages, weights (1 - lambda) lambda^(k-1), the last one taking the rest."""
    result = np.zeros((T, B))
    for t in range(T):
        for k in range(1, T - t + 1):
            estimate = -values[t] + discounts[t : t + k].prod(axis=0) * values[t + k]
            for j in range(k):
                estimate = estimate + discounts[t : t + j].prod(axis=0) * rewards[t + j]
            weight = gae_lambda ** (k - 1) * (1.0 if t + k == T else 1.0 - gae_lambda)
            result[t] += weight * estimate
    return result


def estimate(rewards, values, discounts, gae_lambda):
    return advantages(*map(torch.tensor, (rewards, values, discounts)), gae_lambda=gae_lambda).numpy()


def test_advantages_by_hand():
    rewards, values, discounts = [[1.0], [2.0], [3.0]], [[0.5], [1.0], [1.5], [4.0]], [[0.5], [0.0], [0.5]]
    # deltas: 1 + 0.5 * 1 - 0.5 = 1;  2 - 1 = 1, an end;  3 + 0.5 * 4 - 1.5 = 3.5
    np.testing.assert_allclose(estimate(rewards, values, discounts, 0.8), [[1 + 0.5 * 0.8 * 1], [1], [3.5]])


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 0.95, 1.0])
def test_advantages_are_the_weighted_mean_of_all_k_step_advantages(gae_lambda):
    batch = random_batch()
    np.testing.assert_allclose(estimate(*batch, gae_lambda), generalized_advantages(*batch, gae_lambda), atol=1e-12)


def test_with_lambda_1_they_are_n_step_returns_minus_values():
    rewards, values, discounts = random_batch()
    expected = n_step_returns(rewards, values, discounts) - values[:-1]
    np.testing.assert_allclose(estimate(rewards, values, discounts, 1.0), expected, atol=1e-12)


def test_with_lambda_0_they_look_one_step_ahead():
    rewards, values, discounts = random_batch()
    expected = rewards + discounts * values[1:] - values[:-1]
    np.testing.assert_allclose(estimate(rewards, values, discounts, 0.0), expected, atol=1e-12)


@pytest.mark.parametrize("gae_lambda", [0.95, 1.0])
def test_nothing_flows_over_an_episodes_end(gae_lambda):
    rewards, values, discounts = random_batch()
    before = estimate(rewards, values, discounts, gae_lambda)
    rewards[4:, 0] += 100.0
    values[4:, 0] -= 50.0
    after = estimate(rewards, values, discounts, gae_lambda)
    np.testing.assert_array_equal(after[:4], before[:4])
    assert not np.allclose(after[4:, 0], before[4:, 0])


def vtrace_targets(rewards, values, discounts, gae_lambda, ratios):
    """The targets of the value, as the sum of equation 1 and remark 2 of Espeholt et al. 2018, both bounds 1.

    v_s = V(s_s) + sum over t of (product of the discounts before t) (product of lambda rho before t) rho_t delta_t
    """
    deltas = ratios * (rewards + discounts * values[1:] - values[:-1])
    targets = values[:-1].copy()
    for s in range(T):
        for t in range(s, T):
            traces = gae_lambda ** (t - s) * ratios[s:t].prod(axis=0)
            targets[s] += discounts[s:t].prod(axis=0) * traces * deltas[t]
    return targets


@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
def test_vtraces_advantages_give_its_targets(gae_lambda):
    rewards, values, discounts = random_batch()
    ratios = np.minimum(1.0, np.random.default_rng(1).lognormal(size=(T, B)))
    parts = map(torch.tensor, (rewards, values, discounts))
    corrected = vtrace_advantages(*parts, gae_lambda=gae_lambda, ratios=torch.tensor(ratios)).numpy()
    targets = vtrace_targets(rewards, values, discounts, gae_lambda, ratios)
    np.testing.assert_allclose(values[:-1] + ratios * corrected, targets, atol=1e-12)
    following = np.concatenate([targets[1:], values[T:]])  # the policy's advantage: r + gamma v_s+1 - V(s_s)
    if gae_lambda == 1.0:
        np.testing.assert_allclose(corrected, rewards + discounts * following - values[:-1], atol=1e-12)


@pytest.mark.parametrize("shapes", [((T, B), (T, B), (T, B)), ((T, B), (T + 1, B), (T, 1)), ((T,), (T + 1, B), (T, B))])
def test_shapes_that_do_not_fit_are_refused(shapes):
    with pytest.raises(ValueError, match="shapes differ"):
        advantages(*map(torch.zeros, shapes), gae_lambda=1.0)


def random_rollout(model, *, box):
    generator = torch.Generator().manual_seed(0)
    actions = torch.randn(T, B, 1, generator=generator) if box else torch.randint(2, (T, B), generator=generator)
    rewards, values, discounts = (torch.tensor(part, dtype=torch.float32) for part in random_batch())
    reset = torch.cat([torch.zeros(1, B), (discounts[:-1] == 0).float()])
    obs = torch.randn(T, B, 2, generator=generator)
    memory = model.initial_memory(B)
    with torch.no_grad():
        policy, acted, _ = model(obs, reset, memory)
    values = torch.cat([acted, values[-1:]])
    return Rollout(obs, reset, actions, rewards, discounts, policy.log_prob(actions), values, memory)


def random_batch_of(model, recipe, *, box):
    return batch_of(random_rollout(model, box=box), recipe)


def recipe_and_model(*, box, core="none", **changes):
    recipe = toy.recipe(core=core, gae_lambda=0.9, value_cost=0.7, entropy_cost=0.05, initial_std=0.6, **changes)
    return recipe, build_model(recipe, toy.spaces(box=box))


def numpy_of(model, rollout, *, box):
    """Log-probabilities of the actions taken, entropies and values, from the network's bare outputs."""
    with torch.no_grad():
        obs = rollout.obs
        value = model.value(obs).squeeze(-1).double().numpy()
        if box:
            mean, std = model.policy.mean(obs)[..., 0].double().numpy(), np.exp(model.policy.log_std.item())
            error = (rollout.actions[..., 0].double().numpy() - mean) / std
            log_prob = -(error**2) / 2 - np.log(std * np.sqrt(2 * np.pi))
            return log_prob, np.full((T, B), np.log(std * np.sqrt(2 * np.pi * np.e))), value
        logits = model.policy.logits(obs).double().numpy()
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    taken = np.take_along_axis(log_p, rollout.actions.numpy()[..., None], axis=-1)[..., 0]
    return taken, -(np.exp(log_p) * log_p).sum(-1), value


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("box", [False, True])
def test_the_loss_is_the_papers(box, normalize):
    recipe, model = recipe_and_model(box=box, normalize_advantages=normalize)
    rollout = random_rollout(model, box=box)
    log_prob, entropy, value = numpy_of(model, rollout, box=box)
    values = np.concatenate([value, rollout.values[-1:].double().numpy()])
    advantage = generalized_advantages(
        rollout.rewards.double().numpy(), values, rollout.discounts.double().numpy(), 0.9
    )
    weight = (advantage - advantage.mean()) / advantage.std() if normalize else advantage
    policy_loss, value_loss = -(log_prob * weight).mean(), (advantage**2).mean() / 2
    losses = a3c_loss(model, batch_of(rollout, recipe), recipe)
    assert losses.policy.item() == pytest.approx(policy_loss, rel=1e-4)
    assert losses.value.item() == pytest.approx(value_loss, rel=1e-4)
    assert losses.entropy.item() == pytest.approx(entropy.mean(), rel=1e-4)
    assert losses.total.item() == pytest.approx(policy_loss + 0.7 * value_loss - 0.05 * entropy.mean(), rel=1e-4)
    explained = 1 - advantage.var() / (advantage + value).var()
    assert losses.explained_variance.item() == pytest.approx(explained, abs=1e-4)


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("core", ["none", "lstm"])
def test_every_parameter_gets_a_gradient(core, box):
    recipe, model = recipe_and_model(box=box, core=core)
    a3c_loss(model, random_batch_of(model, recipe, box=box), recipe).total.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_advantages_are_constants_to_the_policys_loss():
    recipe, model = recipe_and_model(box=False)
    losses = a3c_loss(model, random_batch_of(model, recipe, box=False), recipe)
    gradients = torch.autograd.grad(losses.policy, list(model.value.parameters()), allow_unused=True)
    assert all(gradient is None or not gradient.any() for gradient in gradients)


def test_the_values_gradient_takes_its_target_as_given():
    recipe, model = recipe_and_model(box=False)
    rollout = random_rollout(model, box=False)
    parameters = list(model.value.parameters())
    gradients = torch.autograd.grad(a3c_loss(model, batch_of(rollout, recipe), recipe).value, parameters)
    values = model.value(rollout.obs).squeeze(-1)
    fixed = rollout.values
    target = fixed[:-1] + advantages(rollout.rewards, fixed, rollout.discounts, gae_lambda=0.9)
    expected = torch.autograd.grad(((target - values) ** 2).mean() / 2, parameters)
    torch.testing.assert_close(gradients, expected)


def test_the_loss_replays_a_recurrent_agents_values_as_they_were_when_it_acted():
    recipe, model = recipe_and_model(box=False, core="lstm")
    rollout = random_rollout(model, box=False)
    batch = batch_of(rollout, recipe)
    halves = [Batch(*(part[a:b] for part in batch[:-1]), memory=batch.memory) for a, b in ((0, 4), (4, 8))]
    with torch.no_grad():
        _, _, memory = model(halves[0].obs, halves[0].reset, halves[0].memory)
    whole = a3c_loss(model, batch, recipe).entropy
    first, second = (a3c_loss(model, half, recipe).entropy for half in (halves[0], halves[1]._replace(memory=memory)))
    assert whole.item() == pytest.approx((first + second).item() / 2, rel=1e-6)


def gradient(model, batch, recipe):
    return torch.cat(
        [part.flatten() for part in torch.autograd.grad(a3c_loss(model, batch, recipe).total, list(model.parameters()))]
    )


@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.parametrize("box", [False, True])
def test_the_clipped_objective_has_the_plain_gradient_while_the_weights_are_those_that_acted(box, core):
    recipe, model = recipe_and_model(box=box, core=core)
    batch = random_batch_of(model, recipe, box=box)
    plain, clipped = (gradient(model, batch, replace(recipe, clip_ratio=ratio)) for ratio in (None, 0.2))
    torch.testing.assert_close(plain, clipped)


@pytest.mark.parametrize("box", [False, True])
def test_the_clipped_objective_is_the_papers(box):
    recipe, model = recipe_and_model(box=box, clip_ratio=0.1, normalize_advantages=False)
    batch = random_batch_of(model, recipe, box=box)
    moved = batch._replace(log_probs=batch.log_probs + torch.linspace(-0.5, 0.5, T * B).view(T, B))
    losses = a3c_loss(model, moved, recipe)
    expected, beyond = 0.0, 0
    for ratio, advantage in zip(
        np.exp(-np.linspace(-0.5, 0.5, T * B)), batch.advantages.flatten().double().numpy(), strict=True
    ):
        expected -= min(ratio * advantage, min(max(ratio, 0.9), 1.1) * advantage) / (T * B)
        beyond += not 0.9 <= ratio <= 1.1
    assert losses.policy.item() == pytest.approx(expected, rel=1e-4)
    assert losses.clipped.item() == pytest.approx(beyond / (T * B))


def test_each_pass_goes_over_every_step_once():
    recipe, model = recipe_and_model(box=False, passes=3, minibatches=4, clip_ratio=0.2)
    rollout = random_rollout(model, box=False)
    batch = batch_of(rollout, recipe)
    parts = list(batches(rollout, recipe, model))
    assert [part.obs.shape for part in parts] == [(1, T * B // 4, 2)] * 12
    whole = sorted(zip(batch.returns.flatten().tolist(), batch.actions.flatten().tolist(), strict=True))
    for number in range(3):
        one = parts[4 * number : 4 * number + 4]
        returns, actions = (
            torch.cat(each, 1)[0].tolist() for each in zip(*((p.returns, p.actions) for p in one), strict=True)
        )
        assert sorted(zip(returns, actions, strict=True)) == whole


@pytest.mark.parametrize("clip_ratio", [None, 0.2])
@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.parametrize("box", [False, True])
def test_vtrace_has_the_plain_gradient_while_the_weights_are_those_that_acted(box, core, clip_ratio):
    recipe, model = recipe_and_model(box=box, core=core, clip_ratio=clip_ratio)
    rollout = random_rollout(model, box=box)
    (plain,), (corrected,) = (
        [gradient(model, batch, each) for batch in batches(rollout, each, model)]
        for each in (recipe, replace(recipe, vtrace=True))
    )
    torch.testing.assert_close(plain, corrected)


@pytest.mark.parametrize("box", [False, True])
def test_vtrace_corrects_each_pass_for_the_weights_of_that_moment(box):
    recipe, model = recipe_and_model(box=box, passes=2, clip_ratio=0.2, vtrace=True)
    rollout = random_rollout(model, box=box)
    rewards, discounts, acted = (
        part.double().numpy() for part in (rollout.rewards, rollout.discounts, rollout.log_probs)
    )
    for batch in batches(rollout, recipe, model):
        log_prob, _, value = numpy_of(model, rollout, box=box)
        ratios = np.minimum(1.0, np.exp(log_prob - acted))
        values = np.concatenate([value, rollout.values[-1:].double().numpy()])
        targets = vtrace_targets(rewards, values, discounts, 0.9, ratios)
        np.testing.assert_allclose(batch.returns.numpy(), targets, atol=1e-4)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    assert ratios.min() < 0.95


def test_without_a_clip_vtrace_weighs_the_policys_gradient_by_truncated_ratios():
    recipe, model = recipe_and_model(box=False, normalize_advantages=False, vtrace=True)
    batch = random_batch_of(model, recipe, box=False)
    acting = batch.log_probs + torch.linspace(-0.5, 0.5, T * B).view(T, B)
    weighed = batch.advantages * truncated_ratios(batch.log_probs, acting)
    policies = [
        torch.autograd.grad(a3c_loss(model, each, replace(recipe, vtrace=vtrace)).policy, [*model.policy.parameters()])
        for each, vtrace in ((batch._replace(log_probs=acting), True), (batch._replace(advantages=weighed), False))
    ]
    torch.testing.assert_close(*policies)
    assert truncated_ratios(batch.log_probs, acting).max() == 1.0


def test_a_recurrent_cores_parts_are_whole_sequences():
    recipe, model = recipe_and_model(box=False, core="lstm", passes=1, minibatches=2, clip_ratio=0.2)
    batch = random_batch_of(model, recipe, box=False)._replace(memory=(torch.arange(B), torch.arange(B)))
    parts = list(minibatches(batch, recipe))
    assert [part.obs.shape for part in parts] == [(T, 2, 2)] * 2
    assert sorted(torch.cat([part.memory[0] for part in parts]).tolist()) == list(range(B))
    for part in parts:
        torch.testing.assert_close(part.obs, batch.obs[:, part.memory[0]])


def test_passes_without_a_clip_are_refused():
    with pytest.raises(ValueError, match="clip_ratio"):
        toy.recipe(passes=2)
