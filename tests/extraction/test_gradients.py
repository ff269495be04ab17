from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap
from torch.utils._python_dispatch import TorchDispatchMode

import leakmeter as lm
from leakmeter.errors import UsageError
from leakmeter.extraction import reader
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.gradients import Gradients
from leakmeter.extraction.matching import Explanations, matching
from leakmeter.extraction.reader import Lesson
from leakmeter.extraction.unsmoothed import unsmoothed
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.explanations.protections import contradictions
from leakmeter.seeds import stream
from leakmeter.training.loop import Recipe
from leakmeter.victims.spec import VictimSpec

SHORT = Recipe(steps=300, batch=32, lr=3e-2, schedule="cyclic")


def network(features: int = 6, classes: int = 4, scale: float = 1.0, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(features, 24), nn.ReLU(), nn.Linear(24, classes))
    for parameter in net.parameters():
        parameter.data *= scale
    return net


def oracle(net: nn.Module, view: str, budget: int | None = None, features: int = 6) -> lm.Oracle:
    return lm.Oracle(lm.load_victim(net, input_shape=(features,), low=None, high=None), view, budget)


def jacobian(net: nn.Module, x: Tensor) -> Tensor:
    return vmap(jacrev(lambda row: net(row[None])[0]))(x).detach()


@pytest.mark.parametrize("view", ["logits+gradient", "probs+gradient"])
def test_random_projections_measure_the_full_jacobian_without_bias(view: str) -> None:
    victim, student = network(), network(seed=1)
    x = torch.randn(8, 6)
    shown, rows = Explanations(oracle(victim, view).query(x)), torch.arange(8).repeat(4000)
    a = shown.draw(rows, stream(0, "test"))
    inputs = x[rows].requires_grad_()
    gradient = torch.autograd.grad((a * shown.scores(student(inputs))).sum(), inputs)[0]
    difference = jacobian(student, x) - jacobian(victim, x)
    truth = jacobian(victim, x)
    centred = (difference - difference.mean(1, keepdim=True)).square().sum()
    whole = (truth - truth.mean(1, keepdim=True)).square().sum()
    assert shown.error(gradient, a, rows).item() == pytest.approx((centred / whole).item(), rel=0.05)


def test_probabilities_tell_as_much_as_logits_even_where_the_victim_is_sure() -> None:
    victim, x, rows = network(scale=3.8), 3 * torch.randn(50, 6), torch.arange(50)
    assert 1e-30 < victim(x).softmax(1).min() < 1e-20
    logits, probs = (Explanations(oracle(victim, view).query(x)) for view in ("logits+gradient", "probs+gradient"))
    a = logits.draw(rows, stream(0, "a"))
    assert torch.allclose(probs.combine(a, rows), logits.combine(a, rows), rtol=1e-3, atol=1e-3)
    assert probs.power == pytest.approx(logits.power, rel=1e-4)


@pytest.mark.parametrize("protection", ["top:2", "sign", "abs", "round:2"])
def test_a_protected_slope_of_a_probability_near_zero_is_no_division_by_zero(protection: str) -> None:
    """Of a victim that is very sure: slopes of its other classes are compared by squares of their probabilities."""
    victim, student, x = network(scale=3.8), network(seed=1), 3 * torch.randn(50, 6)
    asked = oracle(victim, f"probs+gradient/{protection}")
    answer = asked.query(x)
    assert float(answer.probs.min()) < 1e-20
    shown, draws = matching(x, answer, asked.spec), stream(2)
    for _ in range(20):
        _, error = shown.loss(student, x.clone().requires_grad_(), torch.arange(50), draws)
        error.backward()
        assert torch.isfinite(error)
        assert all(torch.isfinite(each.grad).all() for each in student.parameters() if each.grad is not None)


@pytest.mark.parametrize("protection", ["", "/sign"])
def test_smoothgrad_of_a_sure_victim_tells_nearly_what_the_gradient_does(protection: str) -> None:
    """Slopes of its probabilities vanish at most inputs, and their mean over noise is that of a few draws."""
    victim, x = network(20, 5, scale=6.0), torch.randn(20, 20, generator=stream(3, "x"))
    assert float(victim(x).detach().softmax(1).max(1).values.median()) > 0.99
    test, found = torch.randn(1000, 20, generator=stream(4, "x")), {}
    for explanation in ("gradient", "smoothgrad:10,0.05"):
        door = oracle(victim, f"probs+{explanation}{protection}", 20, 20)
        made = lm.extract("gradients", door, pool=x, student="mlp:24", test=test, recipe=SHORT, joint=True)
        found[explanation] = made.curve[-1].score.fidelity
    assert found["smoothgrad:10,0.05"] > found["gradient"] - 0.05


@pytest.mark.parametrize("width", [1.0, 10.0])
def test_smoothgrad_of_probabilities_is_turned_back_into_gradients(width: float) -> None:
    """Of a probability whose logarithm is linear the noise makes the mean slope longer by a known factor."""
    net = nn.Linear(4, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[3.0, -2.0, 1.0, 5.0], [0.0, 0.0, 0.0, 0.0]]) / width)
        net.bias.copy_(torch.tensor([-25.0, 0.0]))
    victim = lm.load_victim(net, input_shape=(4,), low=0.0, high=width)
    x, slope = width * torch.rand(3, 4, generator=stream(0, "x")), net.weight[0].detach()
    asked = lm.Oracle(victim, "probs+smoothgrad:20000,0.2")
    answer = asked.query(x)
    found = (unsmoothed(answer, asked.spec).explanation / answer.probs[:, :, None])[:, 0]
    long = (answer.explanation / answer.probs[:, :, None])[:, 0]
    assert float(long.norm(dim=1).min()) > 1.5 * float(slope.norm())
    assert torch.allclose(found, slope.expand(3, 4), rtol=0.1, atol=0.05 / width)
    far = lm.Oracle(victim, "probs+smoothgrad:10,5.0")
    assert unsmoothed(kept := far.query(x), far.spec) is kept  # from all over, and no gradient of this place


def test_classes_a_view_hides_or_rounds_away_weigh_nothing() -> None:
    victim, x = network(scale=2.0), torch.randn(20, 6)
    answer = oracle(victim, "top:2+gradient").query(x)
    assert torch.equal(Explanations(answer).weights > 0, answer.shown)
    rounded = oracle(victim, "probs:2+gradient").query(x)
    assert torch.equal(Explanations(rounded).weights > 0, rounded.probs >= 0.1)


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_slopes_times_inputs_tell_what_slopes_do_wherever_the_input_is_not_zero(kind: str) -> None:
    victim, student, rows = network(), network(seed=1), torch.arange(8).repeat(50)
    x = torch.randn(8, 6) * torch.tensor([1e-3, 1.0, 5.0, 1.0, 1.0, 1.0])
    errors = []
    for explanation in ("gradient", "gradxinput"):
        door = oracle(victim, f"{kind}+{explanation}")
        errors.append(matching(x, door.query(x), door.spec).loss(student, x[rows], rows, stream(0, "a"))[1])
    assert errors[1].item() == pytest.approx(errors[0].item(), rel=1e-3)


@pytest.mark.parametrize("view", ["probs+shap:60", "probs+lime:3000", "logits+smoothgrad:3000,0.5"])
def test_whoever_explains_by_chance_is_not_taught_to_explain_by_none(view: str) -> None:
    victim, rows, draws = network(scale=2.0), torch.arange(8).repeat(2), stream(0, "a")
    x = torch.rand(8, 6, generator=stream(1, "x"))
    door = lm.Oracle(lm.load_victim(victim, input_shape=(6,), low=-1.0, high=1.0), view)
    told = matching(x, door.query(x), door.spec)
    errors = [told.loss(victim, x[rows], rows, draws)[1].item() for _ in range(200)]
    assert abs(sum(errors) / len(errors)) < 0.01  # of the victim itself


@pytest.mark.parametrize("view", ["logits+gradient", "probs+gradient"])
def test_one_query_copies_a_linear_model(view: str) -> None:
    torch.manual_seed(0)
    victim, test = nn.Linear(20, 5), torch.randn(2000, 20)
    longer = SHORT.model_copy(update={"steps": 600})
    copy = lm.extract("gradients", oracle(victim, view, 1, 20), student="linear", test=test, recipe=longer)
    assert copy.curve[-1].queries == 1
    assert copy.curve[-1].score.fidelity > 0.99


def test_gradients_copy_a_relu_network_from_fewer_queries_than_probabilities() -> None:
    victim, test = network(20, 5), torch.randn(2000, 20)
    fidelity = {}
    for attack, view in (("surrogate", "probs"), ("gradients", "probs+gradient")):
        copy = lm.extract(attack, oracle(victim, view, 20, 20), student="mlp:24", test=test, recipe=SHORT)
        fidelity[attack] = copy.curve[-1].score.fidelity
    assert fidelity["gradients"] > fidelity["surrogate"] + 0.1
    assert fidelity["gradients"] > 0.8


@pytest.mark.parametrize("view", ["labels+gradient", "top:2+gradient", "probs:3+gradient", "logits+smoothgrad:5,0.05"])
def test_every_explained_view_beats_chance_from_twenty_queries(view: str) -> None:
    victim, test = network(20, 5), torch.randn(1000, 20)
    copy = lm.extract("gradients", oracle(victim, view, 20, 20), student="mlp:24", test=test, recipe=SHORT)
    assert copy.curve[-1].score.fidelity > 0.5


@pytest.mark.parametrize(("view", "least"), [("logits+gradient", 0.95), ("labels+gradient", 0.7)])
def test_a_single_score_is_copied_too(view: str, least: float) -> None:
    torch.manual_seed(0)
    victim, test = nn.Linear(10, 1), torch.randn(1000, 10)
    copy = lm.extract("gradients", oracle(victim, view, 5, 10), student="linear", test=test, recipe=SHORT)
    assert copy.curve[-1].score.fidelity > least


def test_smoothgrad_is_one_explanation_a_query_with_its_work_beside_it() -> None:
    door = oracle(network(), "logits+smoothgrad:7,0.1", 3)
    lm.extract("gradients", door, student="mlp:24", recipe=Recipe(steps=1))
    entry = door.ledger.entry("attack")
    assert (entry.queries, entry.explanations, entry.work) == (3, 3, 21)


def test_a_view_without_explanations_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'probs\+gradient'"):
        lm.extract("gradients", oracle(network(), "probs", 5))


def test_the_same_seed_gives_the_same_copy() -> None:
    first, second, other = (
        lm.extract("gradients", oracle(network(), "probs+gradient", 5), seed=seed, recipe=Recipe(steps=20))
        for seed in (3, 3, 4)
    )
    weights = [torch.cat([p.flatten() for p in made.substitute.parameters()]) for made in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_who_has_no_data_asks_what_looks_like_inputs_and_copies_pictures_into_a_wide_network() -> None:
    """Noise about the middle of the box is no picture: all of its pixels are grey."""
    for shape in ((1, 12, 12), (144,)):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(144, 3))
        door = lm.Oracle(lm.load_victim(net, input_shape=shape, low=0.0, high=1.0), "probs+gradient", 30)
        made = lm.extract("gradients", door, recipe=Recipe(steps=1))
        assert made.queries is not None
        assert made.queries.shape[1:] == shape
        assert float((made.queries == 0).float().mean()) > 0.2
        assert made.student == ("lenet:24" if len(shape) == 3 else "mlp")


@pytest.mark.parametrize("pool", ["procedural", "gaussian"])
def test_queries_need_no_data(pool: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 3))
    victim = lm.load_victim(net, input_shape=(1, 12, 12), low=-1.0, high=1.0)
    door = lm.Oracle(victim, "probs+gradient", 4)
    made = lm.extract("gradients", door, pool=pool, student="linear", recipe=Recipe(steps=5))
    assert made.queries is not None
    assert made.queries.shape == (4, 1, 12, 12)
    assert made.queries.min() < 0


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor made."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, Tensor):
                self.numel = max(self.numel, tensor.numel())
        return made


def test_a_step_needs_memory_for_rows_and_features_not_for_classes_too() -> None:
    batch, features, classes = 16, 64, 40
    net = nn.Linear(features, classes)
    x = torch.randn(batch, features)
    shown = Explanations(oracle(net, "probs+gradient", features=features).query(x))
    columns = (x, torch.zeros(batch, classes), torch.arange(batch))
    with Largest() as largest:
        Gradients._loss(shown, 1.0, 0.1, nn.Linear(features, classes), columns, stream(0, "a")).backward()
    assert largest.numel <= max(batch, classes) * features  # the weights of a linear model are classes × features


OTHERS = [
    "probs+gradxinput",
    "probs+integrated:5",
    "probs+occlusion",
    "logits+shap:3",
    "probs+lime:60",
    "probs+gradient/sign",
    "probs+gradient/top:6",
    "logits+gradient/round:1",
    "probs+gradient/noise:0.3",
    "probs+gradient/top:6/sign",
    "probs+reasons:4",
]
LEFT_OPEN = ["probs+gradient/abs", "probs+gradient/noise:5.0", "probs+shap:1/noise:5.0", "probs+reasons:1"]
TWENTY = Recipe(steps=200, batch=15, lr=3e-2, schedule="cyclic")


def copied(view: str, **options: object) -> float:
    """Fidelity of a copy from fifteen answers."""
    torch.manual_seed(1)
    door, test = oracle(network(20, 5), view, 15, 20), torch.randn(1000, 20)
    made = lm.extract("gradients", door, student="mlp:24", test=test, recipe=TWENTY, **options)
    return made.curve[-1].score.fidelity


@cache
def without() -> float:
    return copied("probs+gradient", lam=1e6, joint=True)  # so much weight on answers leaves nothing else


@pytest.mark.parametrize("view", OTHERS)
def test_every_explanation_is_worth_more_than_the_answers_alone(view: str) -> None:
    assert copied(view) > without() + 0.03


@pytest.mark.parametrize("view", LEFT_OPEN)
def test_an_explanation_that_tells_little_never_makes_a_copy_worse(view: str) -> None:
    assert copied(view) > without() - 0.03


def test_three_answers_held_out_do_not_silence_what_explains_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are so few that the better student is often a little further from them; one far off misleads."""
    x, door = torch.randn(10, 20, generator=stream(5, "x")), oracle(network(20, 5), "probs+gradient", features=20)
    for further, ignored in ((1.5, None), (8.0, [10])):
        found = iter([0.1 * further, 0.1])  # who reads, who does not
        monkeypatch.setattr(reader, "_distance", lambda *_, found=found: next(found))
        job = AttackJob(0, torch.device("cpu"))
        Gradients(recipe=Recipe(steps=2)).learn(network(20, 5, seed=3), x, door.query(x), job, door.spec)
        assert job.notes.get("explanations ignored at") == ignored


def test_an_explanation_that_misleads_is_ignored() -> None:
    """The gradients of another network: whoever believes them is worse off, and the answers held out tell."""
    torch.manual_seed(1)
    x, test, door = torch.randn(40, 20), torch.randn(1000, 20), oracle(network(20, 5), "probs+gradient", features=20)
    answer = door.query(x)
    other = oracle(network(20, 5, seed=9), "probs+gradient", features=20).query(x)
    lied = Answer(answer.view, 5, {**answer.columns, "gradients": other.gradients})
    found = {}
    for joint in (False, True):
        student, job = network(20, 5, seed=3), AttackJob(0, torch.device("cpu"))
        Gradients(recipe=TWENTY, joint=joint).learn(student, x, lied, job, door.spec)
        found[joint] = lm.score(student, oracle(network(20, 5), "probs", features=20), test).fidelity
        assert job.notes.get("explanations ignored at") == (None if joint else [40])
    assert found[False] > found[True] + 0.1


def test_signs_are_not_obeyed_by_explaining_with_nearly_nothing() -> None:
    """Shrinking every gradient contradicts as much as before: the student must turn, not fade."""
    shown, soft = torch.tensor([[1.0, -1.0, 1.0]]), torch.tensor([[0.5, 0.3, 1.0]], requires_grad=True)
    assert contradictions(soft, shown).item() == pytest.approx(contradictions(soft / 100, shown).item())
    slope = torch.autograd.grad(contradictions(soft, shown), soft)[0]
    assert float((slope * soft).sum().detach()) == pytest.approx(0, abs=1e-6)


def test_reasons_are_read_as_inequalities_and_never_contradict_the_victim_itself() -> None:
    victim, x = network(8, 3, seed=2), torch.randn(30, 8)
    protected = [f"logits+gradient/{each}" for each in ("sign", "top:3", "round:1", "abs")]
    for view in ("logits+reasons:2", *protected):
        door = oracle(victim, view, features=8)
        told = matching(x, door.query(x), door.spec)
        _, own = told.loss(victim, x, torch.arange(30), stream(0, "draws"))
        _, other = told.loss(network(8, 3, seed=3), x, torch.arange(30), stream(0, "draws"))
        assert float(own.detach()) < 1e-9 < float(other.detach())


def test_noise_is_averaged_away_by_asking_again() -> None:
    """New noise in every answer: who asks the same input often learns its gradient."""
    torch.manual_seed(0)
    victim, test, x = nn.Linear(20, 5), torch.randn(1000, 20), torch.randn(1, 20)
    found = {}
    for times in (1, 200):
        door = oracle(victim, "logits+gradient/noise:1.0", times, 20)
        made = lm.extract(
            "gradients", door, pool=x.repeat(times, 1), student="linear", test=test, recipe=SHORT, joint=True
        )
        found[times] = made.curve[-1].score.fidelity
    assert found[1] < 0.8 < 0.88 < found[200]


def test_a_student_without_a_convolution_learns_from_the_answers_beside_grad_cam() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))
    victim = lm.load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0)
    for student in ("linear", "lenet"):
        door = lm.Oracle(victim, "probs+gradcam", 4)
        lm.extract("gradients", door, pool="procedural", student=student, recipe=Recipe(steps=3))
        assert door.ledger.spent() == 4


def test_features_of_different_ranges_are_learned_alike_and_the_copy_takes_raw_inputs() -> None:
    torch.manual_seed(0)
    low, high = torch.tensor([0.0, 0.0, -5.0]), torch.tensor([1000.0, 1.0, 5.0])
    net = nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.004, 3.0, 0.1], [-0.002, -1.0, 0.3]]))
        net.bias.copy_(torch.tensor([-3.0, 0.0]))
    victim, test = lm.load_victim(net, input_shape=(3,), low=low, high=high), low + (high - low) * torch.rand(1000, 3)
    made = lm.extract("gradients", lm.Oracle(victim, "probs+gradient", 20), student="linear", test=test, recipe=SHORT)
    assert made.curve[-1].score.fidelity > 0.97
    assert made.student == "linear"


def test_explanations_that_are_no_maps_are_left_to_another_attack() -> None:
    with pytest.raises(UsageError, match="use 'counterfactual'"):
        lm.extract("gradients", oracle(network(), "labels+counterfactual", 5))


def test_a_reading_that_diverges_leaves_what_the_answers_taught() -> None:
    """Also of so few answers that none are held out to decide by."""

    class Diverges(Gradients):
        def lesson(self, x: Tensor, answer: Answer, spec: VictimSpec) -> Lesson:
            whole = super().lesson(x, answer, spec)
            return replace(whole, loss=lambda model, batch, draws: whole.loss(model, batch, draws) * float("nan"))

    victim = network()
    for queries in (5, 40):
        asked, x = oracle(victim, "probs+gradient", queries), torch.randn(queries, 6)
        student, job = network(seed=1), AttackJob(0, torch.device("cpu"))
        Diverges(recipe=SHORT).learn(student, x, asked.query(x), job, asked.spec)
        assert job.notes["explanations ignored at"] == [queries]
        assert (student(x).argmax(1) == victim(x).argmax(1)).float().mean() > 0.9
