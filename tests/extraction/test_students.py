import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from leakmeter.box import Box
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.students import STUDENTS, Lesson, usual_students
from leakmeter.extraction.students.augment import augmentations, augmented
from leakmeter.extraction.students.mean import Mean
from leakmeter.extraction.students.networks import fairer, work
from leakmeter.extraction.students.reading import readings, seen_logits
from leakmeter.extraction.students.reduced import reduced, reduced_spec, reduction, whole
from leakmeter.extraction.students.scaled import scaled
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import stream
from leakmeter.victims.load import load_victim


def lesson(shape=(6,), view="probs", reading="logits", n=80, low=-3.0, high=5.0, classes=3, seconds=0.05) -> Lesson:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))
    victim = load_victim(net, input_shape=shape, low=low, high=high, classes=classes, outputs="logits")
    x = victim.spec.sample(n, stream(4))
    answer = Oracle(victim, view).query(x)
    return Lesson(x, answer, reading, "none", victim.spec, AttackJob(0, torch.device("cpu")), 5, "a lesson", seconds)


def test_the_linear_student_solves_a_linear_victim_from_probabilities() -> None:
    given = lesson()
    copy = STUDENTS["linear"].fit(given)
    fresh = given.spec.sample(200, stream(9))
    truth = copy(given.x).softmax(1)
    assert torch.allclose(truth, given.answer.probs, atol=1e-3)
    assert copy(fresh).shape == (200, 3)


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_the_linear_student_learns_labels_also_of_one_score_and_of_classes_never_seen(classes) -> None:
    given = lesson(view="labels", reading="labels", classes=classes, n=300)
    copy = STUDENTS["linear"].fit(given)
    outputs = copy(given.x)
    assert outputs.shape == (300, classes)
    named = (outputs[:, 0] > 0).long() if classes == 1 else outputs.argmax(1)
    assert (named == given.answer.labels).float().mean() > 0.9
    assert set(named.tolist()) <= set(given.answer.labels.tolist())


@pytest.mark.parametrize("shape", [(6,), (1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 40, 50), (2, 6)])
def test_every_usual_student_of_every_shape_answers_in_the_right_shape_and_leaves_global_randomness_alone(
    shape,
) -> None:
    given = lesson(shape, n=20, seconds=0.0)
    before = torch.get_rng_state()
    for name in usual_students(given.spec):
        one, other = STUDENTS[name].fit(given), STUDENTS[name].fit(given)
        assert one(given.x[:4]).shape == (4, 3)
        pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
        assert all(torch.equal(left, right) for left, right in pairs), name
    assert torch.equal(before, torch.get_rng_state())
    assert len(usual_students(given.spec)) >= 2


def test_large_pictures_are_never_answered_with_a_lenet() -> None:
    for shape in ((3, 32, 32), (3, 224, 224)):
        names = usual_students(lesson(shape, n=2).spec)
        assert "lenet" not in names
        assert {"convolutional", "residual"} <= set(names)


def test_students_see_large_pictures_averaged_down() -> None:
    assert [reduction(shape) for shape in ((3, 224, 224), (1, 79, 300), (3, 32, 32), (6,))] == [5, 1, 1, 1]
    spec = lesson((3, 224, 224), n=2).spec
    seen = reduced_spec(spec)
    assert seen.input_shape == (3, 44, 44)
    assert reduced_spec(seen) is seen
    x = torch.rand(2, 3, 224, 224)
    assert torch.equal(reduced(reduced(x)), reduced(x))
    small = nn.Flatten()
    assert torch.allclose(whole(small, spec)(x), small(reduced(x)))
    assert whole(small, seen) is small
    by_pixel = replace(spec, box=Box(torch.zeros(3, 1, 1), torch.rand(3, 224, 224) + 1))
    narrow = reduced_spec(by_pixel)
    assert narrow.low is not None
    assert narrow.high is not None
    assert narrow.low.shape == narrow.high.shape == (3, 44, 44)
    assert torch.allclose(narrow.high, reduced(by_pixel.box.high[None])[0])


def test_inputs_are_scaled_by_the_box_or_by_the_queries() -> None:
    closed = lesson()
    assert torch.equal(
        scaled(closed.spec, closed.x)(torch.tensor([[-3.0] * 6, [5.0] * 6])), torch.tensor([[-1.0] * 6, [1.0] * 6])
    )
    opened = lesson(low=None, high=None)
    x = torch.randn(500, 6, generator=stream(1)) * 40 + 7
    y = scaled(opened.spec, x)(x)
    assert torch.allclose(y.mean(0), torch.zeros(6), atol=1e-4)
    assert torch.allclose(y.std(0, unbiased=False), torch.ones(6), atol=1e-4)


@pytest.mark.parametrize("paper", [0.0, 0.5, 1.0])
def test_pictures_that_are_mostly_background_begin_there(paper) -> None:
    spec = lesson(shape=(1, 8, 8), low=-2.0, high=6.0).spec
    x = torch.full((40, 1, 8, 8), -2.0 + 8 * paper)
    x[:, :, 2:4] = torch.rand(40, 1, 2, 8, generator=stream(2)) * 8 - 2
    seen = scaled(spec, x)(torch.tensor([-2.0, 2.0, 6.0]))
    wanted = {0.0: [0.0, 0.5, 1.0], 1.0: [-1.0, -0.5, 0.0], 0.5: [-1.0, 0.0, 1.0]}[paper]
    assert torch.allclose(seen.flatten(), torch.tensor(wanted))


def test_work_is_counted() -> None:
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Flatten(), nn.Linear(4 * 25, 7))
    assert work(net, torch.zeros(1, 2, 5, 5)) == (25 * 4 * 2 * 9 + 100 * 7, 100 + 7)


@pytest.mark.parametrize("view", ["labels", "top:1", "top:2", "probs", "probs:1", "logits"])
def test_every_view_can_be_read_as_labels_and_every_reading_is_learned(view) -> None:
    given = ({}, {"pictures": True}, {"large": True})
    ways = [readings(View.parse(view), 3, **options) for options in given]
    assert {shown[-1] for shown in ways} == {"labels"}
    for way in {way for shown in ways for way in shown}:
        copy = STUDENTS["dense"].fit(lesson(view=view, reading=way))
        assert torch.isfinite(copy(torch.zeros(2, 6))).all()


def test_zeros_of_a_hidden_rounding_do_not_drown_the_rest() -> None:
    given = lesson(low=-50.0, high=50.0)
    given.answer.columns["probs"] = torch.round(given.answer.probs, decimals=1)
    logits = seen_logits(given.answer)
    assert float(logits.max() - logits.min()) <= 2 * math.log(1.0 / 0.05) + 1e-4
    assert torch.equal(logits.argmax(1), given.answer.probs.argmax(1))


def test_who_learned_from_mirror_images_looks_both_ways() -> None:
    copy = STUDENTS["convolutional"].fit(replace(lesson((3, 8, 8), n=80), augmentation="mirrored", seconds=0.1))
    x = torch.rand(5, 3, 8, 8, generator=stream(4))
    assert torch.allclose(copy(x), copy(x.flip(3)), atol=1e-5)


def test_augmentations_keep_shape_and_range_and_mirroring_only_moves_pixels() -> None:
    spec = lesson((3, 16, 16), n=2).spec
    x = torch.rand(30, 3, 16, 16, generator=stream(2))
    for how in augmentations(spec):
        y = augmented(x, how, stream(3))
        assert y.shape == x.shape
        assert y.min() >= 0
        assert y.max() <= 1
    mirrored = augmented(x, "mirrored", stream(3))
    assert torch.isin(mirrored[:, 0], x[:, 0]).all()
    assert augmentations(lesson((6,)).spec) == ("none",)


def test_the_mean_of_members_is_their_mean() -> None:
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    x = torch.ones(1, 2)
    assert torch.allclose(Mean([one, other])(x).exp(), (one(x).softmax(1) + other(x).softmax(1)) / 2)
    score = nn.Linear(2, 1)
    assert torch.allclose(Mean([score, score])(x), score(x))


def test_rare_classes_come_up_more_often_by_the_root_of_how_rare_they_are() -> None:
    labels = torch.tensor([0] * 100 + [2] * 25 + [3])
    seen = labels[fairer(labels)].bincount()
    assert seen.tolist() == [100, 0, 50, 10]


def test_probabilities_that_underflow_are_read_as_finite_logits() -> None:
    """Half of the least number there is is 0, whose logarithm once made every student fail."""
    probs = torch.tensor([[1.0, 1e-45, 0.0], [0.5, 0.5, 0.0]])
    answer = Answer(View.parse("probs"), 3, {"probs": probs})
    assert seen_logits(answer).isfinite().all()


@pytest.mark.parametrize("reading", ["logits", "squared", "softened"])
def test_a_victim_that_is_never_sure_is_learned_as_well_as_one_that_is(reading) -> None:
    """Only what a logit is measured in differs: the copies must agree, each in its victim's unit."""
    torch.manual_seed(0)
    x, weight = torch.rand(300, 6), torch.randn(3, 6)
    copies = {}
    for scale in (0.5, 0.005):
        net = nn.Linear(6, 3, bias=False)
        net.weight = nn.Parameter(scale * weight)
        victim = load_victim(net, input_shape=(6,), low=0.0, high=1.0, classes=3, outputs="logits")
        answer = Oracle(victim, "logits", 300).query(x)
        given = Lesson(x, answer, reading, "none", victim.spec, AttackJob(0, torch.device("cpu")), 0, "unsure", 1.0)
        out = predict(STUDENTS["dense"].fit(given), x)
        assert float((out.argmax(1) == answer.labels).double().mean()) > 0.9
        copies[scale] = (out - out.mean(1, keepdim=True)) / scale
    assert torch.allclose(copies[0.5], copies[0.005], atol=0.2)
