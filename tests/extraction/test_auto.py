"""The attacker who chooses, on victims so small that every choice is known beforehand."""

from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import nn

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.extraction.auto import Auto, _Thief
from leakmeter.extraction.base import AttackJob, Extraction, extract
from leakmeter.extraction.chooser import Chooser
from leakmeter.extraction.conformance import check_attack
from leakmeter.extraction.durations import first_seconds, in_a_hurry, trial_seconds
from leakmeter.extraction.given import Given
from leakmeter.extraction.joined import means, with_seeing
from leakmeter.extraction.sources.asking import Asker
from leakmeter.extraction.students.mean import Mean
from leakmeter.extraction.trials import Candidate, Parted, Tried, close, surprises
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import stream
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

QUICK = {"effort": 0.02}


def linear_victim(shape=(12,), classes=3) -> Victim:
    """Without a box: rows of a table with one have an attack of their own."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), classes))
    return load_victim(net, input_shape=shape, low=None, high=None, classes=classes, outputs="logits")


def steal(victim: Victim, view: str, budget: int, **options) -> Extraction:
    test = victim.spec.sample(500, stream(77))
    return extract("auto", Oracle(victim, view, budget), seed=1, test=test, **QUICK, **options)


@pytest.mark.parametrize("view", ["probs", "labels"])
def test_it_keeps_the_rules_of_attacks(view: str) -> None:
    check_attack(Auto(effort=0.005, students=("linear", "dense"), sources=("glyphs", "uniform")), view=view)


def test_a_linear_victim_is_found_to_be_linear() -> None:
    copy = steal(linear_victim(), "probs", 200)
    chosen = [trial for trial in copy.findings.tried if trial.chosen]
    assert [trial.name.partition(",")[0] for trial in chosen] == ["linear"]
    assert {"dense, logits", "linear, softened", "linear, labels"} <= {trial.name for trial in copy.findings.tried}
    assert copy.curve[-1].score.fidelity > 0.98


@pytest.mark.parametrize("view", ["logits", "probs:2", "top:1", "top:2", "labels"])
def test_every_view_spends_exactly_the_budget_and_gives_a_copy(view: str) -> None:
    oracle = Oracle(linear_victim(), view, 200)
    test = oracle.spec.sample(300, stream(77))
    copy = extract("auto", oracle, seed=1, test=test, stops=[100], **QUICK)
    assert oracle.ledger.spent() == 200
    assert [point.queries for point in copy.curve] == [100, 200]
    assert copy.curve[-1].score.fidelity > 0.8
    assert sum(source["queries"] for source in copy.notes["sources"].values()) == 200


@pytest.mark.parametrize("view", ["logits", "probs:2", "top:1", "labels"])
def test_every_view_of_pictures_is_compared_by_what_was_foreseen(view: str) -> None:
    oracle = Oracle(linear_victim((1, 8, 8)), view, 120)
    copy = extract(
        "auto", oracle, seed=1, test=oracle.spec.sample(300, stream(77)), students=("linear", "dense"), **QUICK
    )
    assert oracle.ledger.spent() == 120
    assert {trial.name.partition(",")[0] for trial in copy.findings.tried} >= {"linear", "dense"}
    assert copy.curve[-1].score.fidelity > 0.5


def test_answers_that_a_defense_turned_into_noise_but_for_the_label_are_read_as_labels() -> None:
    """The probabilities say nothing but which is highest: whoever sees them must do as well as who sees the label."""
    victim = linear_victim()

    def spoil(answer: Answer) -> Answer:
        noise = 10 ** (-30 * torch.rand(len(answer), 3, generator=stream(int(answer.labels.sum()))))
        noise[torch.arange(len(answer)), answer.labels] = 10
        return Answer(answer.view, 3, {"probs": noise / noise.sum(1, keepdim=True)})

    test = victim.spec.sample(500, stream(77))
    oracle = Oracle(victim, "probs", 400, undo=spoil)
    spoiled = extract("auto", oracle, seed=1, test=test, students=("linear",), **QUICK)
    assert next(trial for trial in spoiled.findings.tried if trial.chosen).name == "linear, labels"
    assert spoiled.curve[-1].score.fidelity > 0.85


def test_a_single_score_is_copied() -> None:
    victim = linear_victim(classes=1)
    assert steal(victim, "labels", 150).curve[-1].score.fidelity > 0.8


def test_a_pool_is_used() -> None:
    pool = torch.rand(80, 12, generator=stream(5))
    copy = steal(linear_victim(), "labels", 150, pool=pool)
    assert 0 < copy.notes["sources"]["pool"]["queries"] <= 80


def trials(*held_out: float) -> list[Tried]:
    """Of the students a, b, c and so on."""
    return [
        Tried((Candidate(name, "labels", "none"),), value, nn.Identity())
        for name, value in zip("abcde", held_out, strict=False)
    ]


def students(some: list[Tried]) -> list[str]:
    return [trial.candidates[0].student for trial in some]


def ranked(some: list[Tried], held: int = 10**9) -> list[Tried]:
    return Parted(torch.zeros(0), None, torch.zeros(0), torch.zeros(held, 0)).ranked(some)


def test_the_ranking_puts_the_highest_first_and_of_equals_the_one_tried_first() -> None:
    assert students(ranked(trials(0.5, 0.9, 0.9))) == ["b", "c", "a"]
    assert students(ranked(trials(0.5, 0.85, 0.9), held=10)) == ["b", "c", "a"]


def test_of_pictures_what_foresees_answers_better_comes_first_though_it_names_as_many_right() -> None:
    """Forty answers tell the two apart by what they foresaw, and not by the labels they named."""
    noise = torch.rand(40, generator=stream(1))
    calm, wild = (
        Tried((Candidate(name, "squared", "none"),), 0.8, nn.Identity(), level + 0.1 * noise)
        for name, level in (("a", 0.3), ("b", 0.2))
    )
    part = Parted(torch.zeros(0), None, torch.zeros(0), torch.zeros(40), graded=True)
    assert students(part.ranked([calm, wild])) == ["b", "a"]
    assert part.better(wild, calm, 2.0)
    assert not part.better(calm, wild, 0.0)
    same = replace(wild, candidates=calm.candidates, surprise=wild.surprise + 0.01 * (noise - noise.mean()))
    assert students(part.ranked([same, wild])) == ["a", "b"]


@pytest.mark.parametrize(
    ("dense", "noise", "together"),
    [
        (0.25, 0.0, {("lenet", "convolutional")}),
        (0.15, 1.0, {("dense", "lenet")}),
        (0.15, 0.0, set()),
    ],
)
def test_what_does_not_see_pictures_joins_only_where_it_is_best_and_cannot_be_told_apart(
    dense, noise, together, monkeypatch
) -> None:
    victim, x = linear_victim((1, 28, 28)), torch.rand(100, 1, 28, 28)
    asked = Given(x, Oracle(victim, "probs").query(x))
    spread = noise * torch.linspace(-1, 1, 40)
    some = [
        Tried(
            (Candidate(name, "squared", "none"),),
            0.8,
            nn.Identity(),
            level + (spread if name == "dense" else 0 * spread),
        )
        for name, level in (("lenet", 0.2), ("convolutional", 0.3), ("dense", dense), ("linear", 0.9))
    ]
    part = Parted(x, asked.answer, torch.arange(60), torch.arange(60, 100), graded=True)
    monkeypatch.setattr(Parted, "tried", lambda _, ways, __: Tried(ways, 0.9, nn.Identity(), torch.full((40,), 0.1)))
    found = {tuple(one.student for one in mean.candidates) for mean in means(some, part)}
    assert found == together


@pytest.mark.parametrize("lost", ["lenet", "dense", "turned"])
def test_a_picture_s_student_that_diverges_never_wins(lost: str, monkeypatch) -> None:
    victim, x = linear_victim((1, 8, 8)), torch.rand(200, 1, 8, 8)
    asked = Given(x, Oracle(victim, "labels").query(x))
    chooser = Chooser(Auto(effort=0.001), victim.spec, AttackJob(0, torch.device("cpu")), asked)
    fit = chooser.fit

    def diverging(candidate, *given):
        if lost in (candidate.student, candidate.augmentation):
            raise Inconclusive("diverged")
        return fit(candidate, *given)

    monkeypatch.setattr(chooser, "fit", diverging)
    assert all(lost not in (one.student, one.augmentation) for one in chooser.best("200").candidates)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_surprise_does_not_count_how_sure_a_student_is(scale: float) -> None:
    logits = 3 * torch.randn(200, 4, generator=stream(2), dtype=torch.float64)
    answer = Answer(View.parse("probs"), 4, {"probs": logits.softmax(1)})
    found = surprises(scale * logits, answer, torch.ones(200))
    assert float(found.mean()) < 0.005
    assert float(surprises(scale * logits.roll(1, 0), answer, torch.ones(200)).mean()) > 0.5
    likelihood = surprises(logits, Answer(View.parse("labels"), 4, {"labels": logits.argmax(1)}), torch.ones(200))
    assert float(likelihood.mean()) < 0.2  # to labels: log-likelihood


def test_what_lost_by_chance_is_compared_again_and_the_two_best_always_are() -> None:
    ranking = ranked(trials(0.13, 0.07, 0.21, 0.20))
    assert students(close(ranking, 0.0)) == ["c", "d"]
    assert students(close(ranking, 0.1)) == ["c", "d", "a"]
    both = Tried((*ranking[0].candidates, *ranking[1].candidates), 0.9, nn.Identity())
    assert students(close([both, *ranking], 0.0)) == ["c", "d"]


def test_without_an_end_it_says_what_to_give() -> None:
    with pytest.raises(UsageError, match="budget"):
        extract("auto", Oracle(linear_victim(), "probs"))


@pytest.mark.parametrize("view", ["probs", "labels", "probs:1"])
@pytest.mark.parametrize(("budget", "stops"), [(1, ()), (3, ()), (60, (1, 8))])
def test_a_ladder_begins_at_one_query(view: str, budget: int, stops: tuple[int, ...]) -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    victim = load_victim(network, input_shape=(1, 8, 8), low=0.0, high=1.0)
    oracle = Oracle(victim, view, budget)
    copy = extract("auto", oracle, seed=5, stops=stops, effort=0.02, students=("linear",))
    assert [point.queries for point in copy.curve] == [*stops, budget]
    assert bool(copy.findings.tried) == (budget > 40)


def test_a_pool_whose_answers_tell_most_is_asked_before_all_else() -> None:
    """Points far from the origin get sure answers of all classes; those of code that draws lie about it."""
    victim = linear_victim()
    pool = victim.spec.sample(400, stream(5)) * 50
    copy = extract("auto", Oracle(victim, "probs", 300), seed=1, pool=pool, sources=("uniform",), **QUICK)
    asked = copy.notes["sources"]
    assert asked["pool"]["queries"] + asked["uniform"]["queries"] == 300
    assert asked["uniform"]["queries"] <= 40


def test_with_no_source_but_a_pool_it_asks_the_pool_and_ends_with_it() -> None:
    pool, oracle = torch.rand(90, 12, generator=stream(5)), Oracle(linear_victim(), "probs", 400)
    copy = extract("auto", oracle, pool=pool, sources=(), effort=0.02, stops=(50, 400))
    assert [point.queries for point in copy.curve] == [50, 90]
    assert copy.notes["sources"]["pool"]["queries"] == oracle.ledger.spent() == 90


def test_with_nothing_to_ask_it_says_what_to_give() -> None:
    with pytest.raises(UsageError, match="give it a pool"):
        extract("auto", Oracle(linear_victim(), "probs", 50), sources=())


def test_every_source_is_tried_also_where_the_curve_begins_at_one_query() -> None:
    oracle = Oracle(linear_victim((1, 8, 8)), "probs", 300)
    copy = extract("auto", oracle, stops=(1, 8, 64, 300), students=("linear",), **QUICK)
    assert min(source["queries"] for source in copy.notes["sources"].values()) >= 10


class _Scripted(Chooser):
    """A chooser whose trials come out as a script says: by reading, and whether they are long."""

    script: ClassVar[dict[tuple[str, bool], float]]

    def _try(self, candidate, part, name, seconds=None):
        return Tried((candidate,), self.script.get((candidate.reading, seconds is not None), 0.1), nn.Identity())


@pytest.mark.parametrize(
    ("long", "chosen"), [({"logits": 0.7, "labels": 0.6}, "logits"), ({"logits": 0.5, "labels": 0.7}, "labels")]
)
def test_where_labels_are_learned_sooner_long_trials_decide_whether_they_are_better(long, chosen) -> None:
    answer = Oracle(linear_victim(), "probs", 400).query(torch.rand(400, 12))
    asked = Given(torch.zeros(400, 12), answer)
    chooser = _Scripted(Auto(students=("dense",)), linear_victim().spec, AttackJob(0, torch.device("cpu")), asked)
    chooser.script = {
        ("logits", False): 0.4,
        ("labels", False): 0.6,
        **{(way, True): held for way, held in long.items()},
    }
    assert chooser.best("400").candidates[0].reading == chosen
    assert len({trial.candidates for trial in chooser.ranking}) == len(chooser.ranking)


@pytest.mark.parametrize(("held", "chosen"), [(0.55, "squared"), (0.75, "softened")])
def test_of_pictures_a_second_way_to_read_must_be_clearly_better_since_short_trials_flatter_it(held, chosen) -> None:
    victim, x = linear_victim((1, 28, 28)), torch.rand(400, 1, 28, 28)
    asked = Given(x, Oracle(victim, "probs", 400).query(x))
    chooser = _Scripted(Auto(students=("lenet",)), victim.spec, AttackJob(0, torch.device("cpu")), asked)
    chooser.script = {("squared", False): 0.5, ("softened", False): held}
    assert chooser.best("400").candidates[0].reading == chosen
    assert any("softened" in name for name in chooser.tried)


class _Slow(Chooser):
    """A chooser whose LeNet is behind in a short trial, and comes to what is said in a longer one."""

    in_time: ClassVar[float]

    def _try(self, candidate, part, name, seconds=None):
        short = {"lenet": 0.4, "dense": 0.6, "linear": 0.1, "convolutional": 0.05}[candidate.student]
        slow = seconds is not None and candidate.student == "lenet"
        return Tried((candidate,), self.in_time if slow else short, nn.Identity())


class _Mirrored(Chooser):
    """A chooser whose student of mirrored pictures is behind in a short trial, in a long one comes to what is said."""

    in_time: ClassVar[float]

    def _try(self, candidate, part, name, seconds=None):
        mirrored = self.in_time if seconds is not None else 0.4
        held = 0.6 if candidate.augmentation == "none" else mirrored
        return Tried((candidate,), held if candidate.student == "residual" else 0.1, nn.Identity())


@pytest.mark.parametrize(("in_time", "chosen"), [(0.7, "mirrored"), (0.3, "none")])
def test_colour_pictures_are_learned_as_they_are_only_if_a_long_trial_says_so_too(in_time, chosen) -> None:
    victim, x = linear_victim((3, 32, 32)), torch.rand(1000, 3, 32, 32)
    asked = Given(x, Oracle(victim, "probs", 1000).query(x))
    chooser = _Mirrored(Auto(), victim.spec, AttackJob(0, torch.device("cpu")), asked)
    chooser.in_time = in_time
    assert chooser.best("1000").candidates[0].augmentation == chosen


@pytest.mark.parametrize(("in_time", "chosen"), [(0.7, "lenet"), (0.3, "dense")])
def test_what_sees_most_of_a_picture_is_given_time_before_what_learns_sooner_wins(in_time, chosen) -> None:
    victim = linear_victim((1, 28, 28))
    x = torch.rand(400, 1, 28, 28)
    asked = Given(x, Oracle(victim, "labels", 400).query(x))
    chooser = _Slow(Auto(), victim.spec, AttackJob(0, torch.device("cpu")), asked)
    chooser.in_time = in_time
    assert chooser.best("400").candidates[0].student == chosen
    assert chooser.best("400 again").candidates[0].student == chosen
    assert any(name.startswith("dense") for name in chooser.tried)


def test_what_few_answers_left_out_is_compared_again_with_more_of_them() -> None:
    victim, x = linear_victim((1, 28, 28)), torch.rand(2000, 1, 28, 28)
    asked = Given(x[:100], Oracle(victim, "labels").query(x[:100]))
    chooser = _Slow(Auto(), victim.spec, AttackJob(0, torch.device("cpu")), asked)
    chooser.in_time = 0.55  # dense: 0.6, which 15 answers cannot tell from it, and 300 can
    assert chooser.best("100").candidates[0].student == "lenet"
    chooser.asker = Given(x, Oracle(victim, "labels").query(x))
    assert chooser.best("2000").candidates[0].student == "dense"


def test_students_of_rows_are_all_compared_anew_with_the_last_answers() -> None:
    """What leads by luck among few answers, most of them in corners, must meet all the others again."""
    victim, x = linear_victim(), torch.rand(600, 12)
    some, every = (Given(rows, Oracle(victim, "labels").query(rows)) for rows in (x[:250], x))
    chooser = Chooser(Auto(effort=0.01), victim.spec, AttackJob(0, torch.device("cpu"), stops=(600,)), some)
    chooser.best("250")
    assert chooser.searched == 250
    chooser.asker = every
    chooser.best("600")
    assert chooser.searched == 600


@pytest.mark.parametrize("shape", [(12,), (1, 8, 8)])
def test_of_rows_a_student_picks_what_to_ask_by_scores_too(shape, monkeypatch) -> None:
    scouts = []
    exploit = Asker.exploit
    monkeypatch.setattr(
        Asker, "exploit", lambda self, goal, scout, without: scouts.append(scout) or exploit(self, goal, scout, without)
    )
    steal(linear_victim(shape), "probs", 200)
    assert scouts[0] is None
    assert (len(scouts) > 1 and all(scouts[1:])) is (len(shape) == 1)


@pytest.mark.parametrize(("effort", "members"), [(0.2, 1), (1.0, 3)])
def test_a_copy_is_parted_among_members_only_where_each_has_time_to_learn(effort, members, monkeypatch) -> None:
    victim, fitted = linear_victim((1, 28, 28)), []
    x = torch.rand(2000, 1, 28, 28)
    chooser = Chooser(
        Auto(effort=effort), victim.spec, AttackJob(0, torch.device("cpu")), Given(x, Oracle(victim, "labels").query(x))
    )
    monkeypatch.setattr(chooser, "fit", lambda *given: fitted.append(given[-1]) or nn.Flatten())
    chooser.copied_by((Candidate("lenet", "labels", "none"),), "2000")
    assert len(fitted) == members
    assert min(fitted) >= 9  # seconds


@pytest.mark.parametrize(("student", "asked"), [("boosted", False), ("dense", True)])
def test_once_trees_learn_best_corners_are_left_alone(student: str, asked: bool) -> None:
    victim = load_victim(nn.Linear(6, 3), input_shape=(6,), low=0.0, high=1.0, classes=3, outputs="logits")
    thief = _Thief(Auto(), Oracle(victim, "probs", 400), AttackJob(0, torch.device("cpu"), stops=(400,)))
    thief.asker.explore(60)
    before = thief.asker.counts()["corners"]
    thief.ranking = [Tried((Candidate(student, "logits", "none"),), 0.9, nn.Identity())]
    thief.asker.exploit(400, None, thief._useless())
    assert (thief.asker.counts()["corners"] > before) is asked


@pytest.mark.parametrize(
    ("shape", "others", "best", "members"),
    [
        ((12,), (), "linear", {"linear", "dense"}),  # rows: every kind that few answers cannot tell from the best
        ((1, 28, 28), (), "lenet", {"lenet"}),  # pictures are told apart by what was foreseen
        ((1, 28, 28), ("dense", "linear"), "lenet", {"lenet", "dense"}),  # rows that may be pictures: every kind
    ],
)
def test_a_copy_is_hedged_by_kinds_that_few_answers_cannot_tell_apart(shape, others, best, members) -> None:
    spec, none = linear_victim(shape).spec, Given(torch.zeros(0, *shape), None)
    chooser = Chooser(Auto(), spec, AttackJob(0, torch.device("cpu")), none, others)
    named = {"linear": 0.4, "dense": 0.5, "lenet": 0.52, "convolutional": 0.2} | {best: 0.55}
    named = {"linear": 0.55, "dense": 0.5, "boosted": 0.2} if len(shape) == 1 else named
    chooser.ranking = [Tried((Candidate(name, "labels", "none"),), held, nn.Identity()) for name, held in named.items()]
    chooser.near = 0.1
    first = next(trial for trial in chooser.ranking if trial.candidates[0].student == best)
    assert {one.student for one in chooser._hedged(first).candidates} == members
    chooser.near = 0.01
    assert chooser._hedged(first).candidates == first.candidates


@pytest.mark.parametrize(
    ("view", "reading", "members"),
    [
        ("labels", "labels", ["dense", "lenet", "convolutional"]),
        ("probs", "squared", ["dense"]),
        ("probs", "labels", ["dense", "lenet", "convolutional"]),  # answers that a defense spoiled
    ],
)
def test_what_does_not_see_pictures_is_never_a_copy_alone_where_labels_are_all_it_learned(
    view, reading, members
) -> None:
    victim, x = linear_victim((1, 28, 28)), torch.rand(60, 1, 28, 28)
    asked = Given(x, Oracle(victim, view).query(x))
    chooser = Chooser(Auto(), victim.spec, AttackJob(0, torch.device("cpu")), asked)
    chooser.ranking = [
        Tried((Candidate(name, reading, "none"),), 0.9 - 0.1 * place, nn.Identity())
        for place, name in enumerate(("dense", "linear", "lenet", "convolutional"))
    ]
    hedged = chooser._hedged(chooser.ranking[0])
    assert [one.student for one in hedged.candidates] == members
    seeing = chooser.ranking[2]
    assert chooser._hedged(seeing) is seeing


@pytest.mark.parametrize(("ahead", "joined"), [(0.0, ["dense", "lenet", "convolutional"]), (0.5, ["dense", "lenet"])])
def test_what_does_not_see_pictures_is_joined_by_one_that_does_however_far_it_is_ahead(ahead, joined) -> None:
    noise = torch.rand(60, generator=stream(6))
    dense, *seeing = (
        Tried((Candidate(name, "labels", "none"),), 0.7, nn.Identity(), noise + worse)
        for name, worse in (("dense", 0.0), ("lenet", ahead), ("convolutional", ahead))
    )
    part = Parted(torch.zeros(0), None, torch.zeros(0), torch.zeros(60), graded=True)
    made = with_seeing(dense, [dense, *seeing], part)
    assert [one.student for one in made.candidates] == joined
    assert with_seeing(seeing[0], [dense, *seeing], part) is seeing[0]


@pytest.mark.parametrize(
    ("made", "told"), [("dense", {"dense, labels", "lenet, labels"}), ("lenet", {"lenet, labels"})]
)
def test_findings_name_every_student_that_made_the_copy(made, told, monkeypatch) -> None:
    victim, x = linear_victim((1, 28, 28)), torch.rand(60, 1, 28, 28)
    chooser = Chooser(
        Auto(), victim.spec, AttackJob(0, torch.device("cpu")), Given(x, Oracle(victim, "labels").query(x))
    )
    chooser.ranking = [Tried((Candidate(name, "labels", "none"),), 0.9, nn.Identity()) for name in ("dense", "lenet")]
    chooser.tried = {str(one): one.held_out for one in chooser.ranking}
    best = next(one for one in chooser.ranking if one.candidates[0].student == made)
    monkeypatch.setattr(chooser, "best", lambda name: best)
    monkeypatch.setattr(chooser, "_whole", lambda tried, name: nn.Identity())
    chooser.copied("60")
    assert set(chooser.chosen) == told


@pytest.mark.parametrize(("labels", "turned"), [(0.9, True), (0.45, False)])
def test_in_a_hurry_scores_that_are_read_as_labels_are_learned_as_labels_are(labels, turned) -> None:
    """With changed pictures too; and what lost to them is told."""
    victim, x = linear_victim((1, 28, 28)), torch.rand(400, 1, 28, 28)
    asked = Given(x, Oracle(victim, "probs", 400).query(x))

    class Script(Chooser):
        def _try(self, candidate, part, name, seconds=None):
            right = labels if candidate.reading == "labels" else 0.4
            return Tried((candidate,), right, nn.Identity(), torch.full((len(part.held),), 1 - right))

    chooser = Script(Auto(effort=0.001), victim.spec, AttackJob(0, torch.device("cpu")), asked)
    part = Parted(x, asked.answer, torch.arange(300), torch.arange(300, 400), graded=True)
    tried = {str(trial) for trial in chooser._search(part, "400")} | set(chooser.tried)
    assert chooser.hurried()
    assert ("lenet, labels, turned" in tried) == turned
    assert {"lenet, squared", "dense, squared"} <= tried


def test_in_a_hurry_students_of_pictures_are_compared_after_as_many_steps_as_a_copy_takes() -> None:
    """Trials of a few steps would find a linear student best, which learns at once, and copy with that."""
    spec = linear_victim((1, 28, 28), 10).spec
    attack = Auto(effort=0.001)
    copy = attack.seconds_for(2000, spec)
    assert copy == first_seconds(2000, spec) > 2.0
    assert in_a_hurry(copy, spec, 2000)
    assert trial_seconds(copy, attack.effort, spec, 2000) == copy
    assert not in_a_hurry(Auto().seconds_for(2000, spec), spec, 2000)
    assert first_seconds(2000, linear_victim().spec) == 0


def test_in_a_hurry_the_likeliest_network_is_tried_with_what_learns_soon() -> None:
    oracle = Oracle(linear_victim((1, 8, 8), 3), "labels", 120)
    copy = extract("auto", oracle, seed=1, stops=[60], effort=0.001)
    tried = {trial.name for trial in copy.findings.tried}
    single = {name for name in tried if "+" not in name}  # the first of the networks that see pictures, twice
    assert single == {"lenet, labels", "lenet, labels, turned", "dense, labels", "linear, labels"}


@pytest.mark.parametrize(("effort", "learned"), [(0.001, 1), (0.3, 2)])
def test_in_a_hurry_a_trial_stands_for_a_member_of_the_copy_where_there_is_no_time_for_both(
    effort, learned, monkeypatch
) -> None:
    victim, x, fitted = linear_victim((1, 28, 28)), torch.rand(2000, 1, 28, 28), []
    asked = Given(x, Oracle(victim, "labels").query(x))
    chooser = Chooser(Auto(effort=effort), victim.spec, AttackJob(0, torch.device("cpu")), asked)
    both = tuple(Candidate(student, "labels", "none") for student in ("lenet", "dense"))
    models = [nn.Flatten(), nn.Flatten()]
    chooser.ranking = [Tried(both, 0.9, Mean(models))]
    monkeypatch.setattr(chooser, "fit", lambda *given: fitted.append(given[0]) or nn.Flatten())
    copy = chooser._copy(chooser.ranking[0], "2000")
    assert fitted == [*both[:learned]]
    assert len(copy.members) == 2
    assert (copy.members[1] is models[1]) == (learned == 1)
