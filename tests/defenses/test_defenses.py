"""Every defense: its text, that its answers are distributions, that labels stay where that is promised."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from leakmeter.defenses import ADAPTIVE, DEFENSES, canonical, defend, parse, undoing
from leakmeter.errors import NotApplicable, UsageError
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Question

CHANGING = ["top:2", "rounding:1", "rounding:3", "noise:0.2", "reverse-sigmoid:0.7,0.2", "reverse-sigmoid:0.3,0.9"]
CHANGING += ["mad:0.8", "mad-argmax:0.8", "misinformation:0.7", "modelguard-w:0.8", "modelguard-s:0.8"]
CHANGING += ["repeatable-noise:0.2"]
ALL = ["none", "limit:100", "labels", *CHANGING, "smoothing:0.5,20"]
KEEPING = [text for text in CHANGING if parse(text)[0].keeps_label]


def stream() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def changed(text: str, probs: Tensor) -> Tensor:
    return parse(text)[0].change(probs, stream())


@st.composite
def distributions(draw: st.DrawFn) -> Tensor:
    """Rows of probabilities, from flat to certain, with ties and zeros."""
    classes = draw(st.integers(2, 7))
    weight = st.sampled_from([0.0, 1e-9, 1e-3, 1.0, 1.0, 2.5, 1e4])
    rows = draw(st.lists(st.lists(weight, min_size=classes, max_size=classes), min_size=1, max_size=4))
    values = torch.tensor(rows, dtype=torch.float64)
    values[values.sum(1) == 0] = 1.0
    return values / values.sum(1, keepdim=True)


@pytest.mark.parametrize("text", ALL)
def test_text_reads_back_as_itself(text: str) -> None:
    assert str(parse(text)[0]) == canonical(text) == text
    assert set(DEFENSES) == {each.partition(":")[0] for each in ALL}


def test_numbers_have_one_spelling_and_adaptive_is_kept() -> None:
    assert canonical("noise:1e-1/adaptive") == "noise:0.1/adaptive"
    assert canonical("smoothing:0.50,0100") == "smoothing:0.5,100"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rouding:2", r"unknown defense 'rouding'; did you mean 'rounding'\?"),
        ("rounding", r"expected the defense rounding:DECIMALS, got 'rounding'"),
        ("labels:2", r"expected the defense labels, got 'labels:2'"),
        ("reverse-sigmoid:0.2", r"expected the defense reverse-sigmoid:BETA,GAMMA"),
        ("rounding:2.5", r"expected whole numbers in 'rounding:2.5', got '2.5'"),
        ("noise:nan", r"expected numbers in 'noise:nan', got 'nan'"),
        ("noise:-1", r"SIGMA of noise:SIGMA to be positive, got -1"),
        ("rounding:9", r"DECIMALS of rounding:DECIMALS from 0 to 6, got 9"),
        ("top:0", r"K of top:K to be at least 1, got 0"),
        ("reverse-sigmoid:2,0.5", r"reverse-sigmoid:BETA,GAMMA above 0, up to 1"),
        ("smoothing:0.5,0", r"at least one copy"),
        ("labels/adaptive", r"the defense labels leaves nothing to undo; write 'labels'"),
        ("none/adaptive", r"leaves nothing to undo"),
        ("limit:10/adaptive", r"leaves nothing to undo"),
        ("limit:0", r"QUERIES of limit:QUERIES to be at least 1, got 0"),
        ("mad:3", r"EPSILON of mad:EPSILON above 0 and up to 2"),
        ("modelguard-w:0", r"EPSILON of modelguard-w:EPSILON above 0 and up to 2"),
        ("modelguard-s:3", r"EPSILON of modelguard-s:EPSILON above 0 and up to 2"),
        ("misinformation:1.5", r"TAU of misinformation:TAU above 0 and up to 1, got 1.5"),
        ("repeatable-noise:0", r"SIGMA of repeatable-noise:SIGMA to be positive"),
    ],
)
def test_mistakes_are_named(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse(text)


@settings(max_examples=60)
@given(distributions(), st.sampled_from([text for text in CHANGING if text != "top:5"]))
def test_answers_are_distributions(probs: Tensor, text: str) -> None:
    shown = changed(text, probs)
    assert shown.shape == probs.shape
    assert (shown >= 0).all()
    assert torch.allclose(shown.sum(1), torch.ones(len(probs), dtype=shown.dtype), atol=1e-9)


@settings(max_examples=60)
@given(
    distributions(), st.sampled_from(["top:1", "noise:3", "mad-argmax:2", "modelguard-w:2", "modelguard-s:2", *KEEPING])
)
def test_labels_are_kept(probs: Tensor, text: str) -> None:
    assert torch.equal(changed(text, probs).argmax(1), probs.argmax(1))


@settings(max_examples=60)
@given(distributions(), st.integers(0, 4))
def test_rounding_moves_nothing_a_whole_step_and_never_turns_the_order(probs: Tensor, decimals: int) -> None:
    shown, step = changed(f"rounding:{decimals}", probs), 10.0**-decimals
    assert (shown - probs).abs().max() < step * (1 + 1e-9)
    assert torch.allclose(shown / step, (shown / step).round(), atol=1e-6)
    rises = probs[:, :, None] > probs[:, None, :]
    assert (shown[:, :, None] >= shown[:, None, :])[rises].all()
    assert (shown.gather(1, probs.argmax(1, keepdim=True))[:, 0] == shown.amax(1)).all()


def test_rounding_by_hand() -> None:
    probs = torch.tensor([[0.04] * 10 + [0.6], [0.333, 0.333, 0.334] + [0.0] * 8], dtype=torch.float64)
    shown = changed("rounding:1", probs)
    assert torch.allclose(shown[0], torch.tensor([0.1] * 4 + [0.0] * 6 + [0.6], dtype=torch.float64))
    assert torch.allclose(shown[1, :3], torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64))


def test_top_keeps_the_best_and_evens_the_rest() -> None:
    probs = torch.tensor([[0.1, 0.5, 0.06, 0.3, 0.04]], dtype=torch.float64)
    assert torch.allclose(changed("top:2", probs), torch.tensor([[0.2 / 3, 0.5, 0.2 / 3, 0.3, 0.2 / 3]]).double())
    assert torch.equal(changed("top:5", probs), probs)


def test_noise_is_of_the_size_it_says() -> None:
    flat = torch.full((4000, 10), 0.1, dtype=torch.float64)
    shown = changed("noise:0.01", flat)
    assert (shown - flat).std().item() == pytest.approx(0.01, rel=0.08)


def test_noise_goes_to_the_nearest_distribution() -> None:
    from leakmeter.defenses.noise import nearest_distribution

    values = torch.randn(20, 4, generator=stream(), dtype=torch.float64)
    nearest = nearest_distribution(values)
    others = torch.rand(3000, 4, generator=stream(), dtype=torch.float64).log().neg()
    others = others / others.sum(1, keepdim=True)
    assert ((values[:, None] - others).norm(dim=2).amin(1) >= (values - nearest).norm(dim=1) - 1e-9).all()


@pytest.mark.parametrize("text", ["labels", *CHANGING])
def test_a_defended_victim_is_a_victim(text: str, echo, some_probs: Tensor) -> None:
    victim = echo()
    defended = defend(text, victim)
    oracle = Oracle(defended, "labels", truth=victim)
    assert defended.spec.outputs == ("labels" if text == "labels" else "probs")
    assert (defended.spec.classes, defended.spec.input_shape) == (5, (5,))
    assert oracle.query(some_probs).labels.shape == (60,)
    assert torch.equal(oracle.judge(some_probs).probs, some_probs)


def test_logits_are_turned_into_probabilities_first(echo) -> None:
    logits = torch.tensor([[3.0, 1.0, 0.0, -2.0, 0.5]])
    shown = Oracle(defend("rounding:3", echo("logits")), "probs").query(logits).probs
    assert torch.allclose(shown, logits.softmax(1), atol=1e-3)


@pytest.mark.parametrize(
    ("text", "view"),
    [("labels", "probs"), ("labels", "top:2"), ("rounding:2", "logits"), ("noise:0.1", "probs+gradient")],
)
def test_a_view_the_defense_rules_out_does_not_apply(text: str, view: str, echo) -> None:
    with pytest.raises(NotApplicable, match=r"the (view|explanation) [a-z:0-9]+ needs"):
        Oracle(defend(text, echo("logits")), view)


@pytest.mark.parametrize("text", CHANGING)
def test_probabilities_of_a_label_only_victim_cannot_be_changed(text: str, echo) -> None:
    with pytest.raises(NotApplicable, match="needs a victim that returns logits or probabilities, got labels"):
        defend(text, echo("labels"))


def test_only_a_smooth_defense_has_gradients() -> None:
    net = torch.nn.Linear(4, 3)
    victim = load_victim(net, input_shape=(4,), low=0.0, high=1.0)
    answer = Oracle(defend("reverse-sigmoid:0.7,0.2", victim), "probs+gradient").query(torch.rand(2, 4))
    x = torch.rand(2, 4).requires_grad_()
    assert answer.gradients.shape == (2, 3, 4)
    assert not defend("top:2", victim).differentiable
    with torch.no_grad():
        before = defend("reverse-sigmoid:0.7,0.2", victim).respond(x, Question(stream()))
        after = defend("reverse-sigmoid:0.7,0.2", victim).respond(x + 1e-3, Question(stream()))
    shown = Oracle(defend("reverse-sigmoid:0.7,0.2", victim), "probs+gradient").query(x.detach().clamp(0, 1))
    assert torch.allclose(after - before, 1e-3 * shown.gradients.sum(2), atol=1e-5)


@pytest.mark.parametrize("text", ["noise:0.1", "smoothing:1,30"])
def test_noise_comes_from_the_oracles_seed_and_the_number_of_the_question(text: str, echo, some_probs: Tensor) -> None:
    first, again, other = (Oracle(defend(text, echo()), "probs", seed=seed) for seed in (3, 3, 4))
    before = torch.get_rng_state()
    answer = first.query(some_probs).probs
    assert torch.equal(answer, again.query(some_probs).probs)
    assert not torch.equal(answer, other.query(some_probs).probs)
    assert not torch.equal(answer, again.query(some_probs).probs)  # asked again: fresh noise, and a query more
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("text", ["rounding:2", "top:2", "reverse-sigmoid:0.7,0.2"])
def test_undoing_needs_all_probabilities_as_they_are(text: str) -> None:
    assert undoing(text, "labels") is None
    assert undoing(text + ADAPTIVE, "probs") is not None
    for view in ("labels", "top:3", "probs:2", "probs+gradient"):
        with pytest.raises(NotApplicable, match="the view probs, not"):
            undoing(text + ADAPTIVE, view)


def test_the_attacker_reads_rounded_and_hidden_values_for_what_they_are(echo, some_probs: Tensor) -> None:
    def read(text: str) -> Answer:
        return Oracle(defend(text, echo()), "probs", undo=undoing(text, "probs")).query(some_probs)

    rounded, top = read("rounding:2/adaptive"), read("top:2/adaptive")
    assert (rounded.view, top.view) == (View("probs", decimals=2), View("top", k=2))
    assert torch.equal(top.columns["values"], some_probs.topk(2).values)
    assert top.shown.sum(1).eq(2).all()


@pytest.mark.parametrize("text", ["noise:0.1", "smoothing:0.3,20"])
def test_no_zero_is_believed_and_the_order_stays(text: str, echo, some_probs: Tensor) -> None:
    shown = Oracle(defend(text, echo()), "probs").query(some_probs)
    read = parse(text)[0].undo(shown)
    assert (shown.probs == 0).any()
    assert (read.probs > 0).all()
    assert torch.allclose(read.probs.sum(1), torch.ones(60))
    assert torch.equal(read.labels, shown.labels)
