"""What the four papers hold, in their order, for `papers.py`: the papers' numbers here, ours from results/."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from papers import Item, run, told
from papers_stn import STN

from leakmeter.studies.milli.cifar10 import FIGURES as CIFAR10
from leakmeter.studies.rows import Row

_SMALL = "a small network where the paper has a ResNet; fewer steps"
_EXACT = "src/leakmeter/extraction/exact/"
_PAPER = f"{_EXACT}paper.py"
_TESTED = "tests/extraction/exact/test_paper.py"
_VALUES, _VALUES_TESTED = f"{_EXACT}paper_values.py", "tests/extraction/exact/test_paper_values.py"
_LEMMAS = "tests/extraction/test_dfme.py"
_CODFE, _GAMES = "src/leakmeter/extraction/codfe.py", "tests/extraction/test_game.py"
_SHOW = "tests/studies/test_datafree.py"
_MATH = "a statement, not a number: its test checks it"
_LONG = "its authors' runs have millions of queries; here it collapses onto one class"
_FIGURE_7 = run("dfme-fig7", "an hour for 500,000 queries", "--seed 0 --seeds 1")


def _milli(figure: int) -> list[Row]:
    """The rows of a figure of Milli et al., then those of its panels on CIFAR-10."""
    return [*told(f"milli-fig{figure}")(), *(row for row in told("milli-cifar10")() if row.what in CIFAR10[figure])]


_TABLE1 = tuple(f"codfe-table1{part}/codfe-table1" for part in ("-seeds", ""))
_COPIES = tuple(f"codfe-fig2{part}/codfe-fig2" for part in ("-fashion-mnist", ""))
"""CoDFe's own copies of three seeds; then those that were made on one."""


def _table1(dataset: str, *goals: str) -> Callable[[], list[Row]]:
    """CoDFe's rows and DaST's, ours by probabilities beside them."""
    arms = ("probs/codfe", "labels/codfe", "probs/dast", "labels/dast", "probs/procedural")
    return told("codfe-table1", *(f"{dataset}/{arm}/{goal}" for goal in goals for arm in arms), records=_TABLE1)


_DFME = (
    Item(
        "Table 4, CIFAR-10 row",
        "src/leakmeter/studies/dfme/table4.py src/leakmeter/extraction/surrogate.py",
        f"{_SHOW} tests/extraction/test_surrogate.py",
        "95.5 % victim; CIFAR-10 95.2, CIFAR-100 93.5, SVHN 66.6, MNIST 37.2 %",
        told("dfme-table4", "cifar10"),
        f"{_SMALL}; the highest of all settings, chosen on test data as in the paper",
    ),
    Item(
        "Table 4, CIFAR-10 row, on a real ResNet",
        "src/leakmeter/studies/dfme/pools.py src/leakmeter/studies/dfme/settings.py",
        _SHOW,
        "95.5 % victim; CIFAR-10 95.2, CIFAR-100 93.5, SVHN 66.6, MNIST 37.2 %",
        lambda: [*told("dfme-pools")(), *told("dfme-settings")()],
        "a stranger's ResNet-20; a narrow student; 20,000 and 5,000 images for the paper's 50,000; few steps; one "
        "setting, or settings chosen by held-out answers",
        f"{run('dfme-pools', '4 minutes a seed')}; {run('dfme-settings', '4 minutes a seed')}",
    ),
    Item(
        "The attack itself on a real ResNet",
        "src/leakmeter/studies/dfme/fig7.py src/leakmeter/studies/dfme/replays.py src/leakmeter/extraction/dfme.py",
        _SHOW,
        "no number in the appendix",
        lambda: [
            *told("dfme-fig7")(),
            *told("dfme-replays")(),
            *(row for row in told("codfe-cifar10", "probs/")() if "accuracy" in row.what),
        ],
        "other attacks beside it, at fewer queries; DFME's own runs have 20 million, which at 1,000 a second are six "
        "hours of the victim alone",
        f"{run('dfme-replays', 'an hour for 500,000 queries', '--seed 0 --seeds 1')}; {_FIGURE_7}",
        instead=False,
    ),
    Item(
        "Table 4, SVHN row",
        "src/leakmeter/studies/dfme/table4.py",
        _SHOW,
        "96.2 % victim; SVHN 96.0, CIFAR-10 96.3, MNIST 89.5, SVHN skew 96.1, random 84 %",
        told("dfme-table4", "svhn"),
        _SMALL,
    ),
    Item(
        "Equations 8 and 9: logits from probabilities; section 6.3: their mean is negligible",
        "src/leakmeter/extraction/targets.py "
        "src/leakmeter/studies/dfme/logits.py src/leakmeter/studies/dfme/resnet20.py",
        "tests/extraction/test_targets.py",
        "mean of the logits negligible beside the logits",
        lambda: [*told("dfme-logits")(), *told("dfme-resnet20")()],
        "the mean's share of the logits' size: the claim holds of a real ResNet, not of small victims",
    ),
    Item(
        "Figure 7: images of the generator",
        "src/leakmeter/report/sheet.py",
        "tests/report/test_sheet.py",
        "four images",
        told("dfme-fig7"),
        "a picture of what the generator asks late in the attack, and how even the answers are",
        _FIGURE_7,
        instead=False,
    ),
    Item("Lemma 1: eigenvalues of a softmax's Jacobian", "src/leakmeter/studies/dfme/gradients.py", _LEMMAS, why=_MATH),
    Item("Lemma 2: no vector grows", "src/leakmeter/studies/dfme/gradients.py", _LEMMAS, why=_MATH),
    Item("Lemma 3: Jacobians converge with the outputs", "src/leakmeter/studies/dfme/gradients.py", _LEMMAS, why=_MATH),
    Item(
        "Hypothesis 1: the KL gradient fades beside that of ℓ1",
        "src/leakmeter/studies/dfme/gradients.py",
        _LEMMAS,
        "fades as the student converges",
        told("dfme-gradients"),
        "no number in the paper",
    ),
)

_CO = (
    Item(
        "Figure 1, Algorithm 1: the framework",
        _CODFE,
        _GAMES,
        ours="implemented; the literal loss beside ours (`codfe-literal`)",
        why="the paper's own loss, taken literally, collapses here",
    ),
    Item(
        "Lemma 1 (appendix): the generator's step lowers the loss",
        _CODFE,
        _GAMES,
        ours="false as it stands: its test has a counterexample",
        why="it supposes that both confidences rise, and a student that grows too sure has a higher loss",
    ),
    Item(
        "Theorem 1: convergence over rounds",
        _CODFE,
        _GAMES,
        ours="rests on Lemma 1",
        why="what really happens to the loss: figure 3",
    ),
    Item(
        "Figure 2: accuracy of substitutes",
        "src/leakmeter/studies/codfe/fig2.py",
        _SHOW,
        "MNIST 91 % probabilities, 89 % labels at about 350,000 queries; DaST 30 % and 52 %",
        lambda: [
            *told("codfe-fig2", "codfe, ", "codfe-literal", "dast, fashion", records=_COPIES)(),
            *told("codfe-dast")(),
            *(row for row in told("codfe-cifar10")() if "accuracy" in row.what),
        ],
        "LeNet for both networks, on CIFAR-10 a stranger's ResNet-20 and a narrow student; fewer queries",
        run("codfe-fig2", "three hours, nearly all of them for DaST at length"),
        instead=False,
    ),
    Item(
        "Figure 3: convergence of the loss",
        f"{_CODFE} src/leakmeter/studies/codfe/fig3.py",
        _SHOW,
        "falls over rounds",
        told("codfe-fig3"),
        "LeNet for both networks",
        run("codfe-fig3", "10 minutes"),
    ),
    Item(
        "Table 1, MNIST",
        "src/leakmeter/studies/codfe/table1.py src/leakmeter/evaluation/transfer.py",
        _SHOW,
        "CoDFe-P FGSM/BIM/PGD 52.0/61.8/60.9 %, targeted 16.0/15.4/15.3 %; DaST-P 24.7/27.9/28.4 %",
        _table1("mnist", "untargeted", "targeted/pgd"),
        "the paper does not state its ε; our targeted is each input's second choice",
        run("codfe-table1", "three hours and a half, for ours and DaST on three seeds"),
        instead=False,
    ),
    Item(
        "Table 1, one fixed class for all (the paper's targeted)",
        "src/leakmeter/studies/thieves.py",
        _SHOW,
        "CoDFe-P MNIST FGSM/BIM/PGD 16.0/15.4/15.3 %",
        lambda: [
            *_table1("mnist", "second")(),
            *_table1("fashion-mnist", "second")(),
            *told("codfe-table2", "mnist/probs/real/second class", "mnist/labels/real/second class")(),
        ],
        "the paper does not state its ε; DaST not measured so; beside it copies from real data (table 2's)",
        run("codfe-table1", "three hours and a half, for ours and DaST on three seeds"),
        instead=False,
    ),
    Item(
        "Table 1, Fashion-MNIST",
        "src/leakmeter/studies/codfe/table1.py",
        _SHOW,
        "CoDFe-P untargeted BIM/PGD 90.4/92.1 %, targeted 37.3/37.8 %; DaST-P 88.5/89.9, 6.2/5.7 %",
        _table1("fashion-mnist", "untargeted", "targeted/pgd"),
        "the paper does not state its ε; ours is 0.1",
        run("codfe-table1", "three hours and a half, for ours and DaST on three seeds"),
        instead=False,
    ),
    Item(
        "Table 1, CIFAR-10",
        "src/leakmeter/studies/codfe/cifar10.py",
        _SHOW,
        "CoDFe-P untargeted 58.6/60.2/60.0 %, targeted 0.22/0.27/0.25 %",
        lambda: [row for row in told("codfe-cifar10")() if "pool" not in row.what and "accuracy" not in row.what],
        "a stranger's ResNet-20; 5,000 queries, at which CoDFe learns nothing; the paper does not state its ε",
        run("codfe-cifar10", "15 minutes a seed"),
    ),
    Item(
        "Table 2, CIFAR-10: real data",
        "src/leakmeter/studies/codfe/cifar10.py",
        _SHOW,
        "not legible in our text of the paper",
        told("codfe-cifar10", "probs/pool", "labels/pool"),
        "the victim's own kind of images, and CIFAR-100's",
        run("codfe-cifar10", "15 minutes a seed"),
    ),
    Item(
        "Table 2: real data",
        "src/leakmeter/studies/codfe/table2.py",
        _SHOW,
        "untargeted FGSM/BIM/PGD 64.0/79.0/78.8 % (P), 61.8/80.2/80.5 % (L)",
        told("codfe-table2", "mnist/probs/real/untargeted", "mnist/labels/real/untargeted"),
        "another ε, other networks",
    ),
    Item(
        "Table 3: queries to the highest accuracy",
        "src/leakmeter/studies/codfe/table3.py",
        _SHOW,
        "CoDFe P, L: MNIST 352,452, 344,414; Fashion-MNIST 445,488, 475,487; CIFAR-10 166,410, 195,466",
        told("codfe-table3", "codfe, ", "dast, ", records=_COPIES),
        "until the attacker's own measure is near its highest, on the copies of figure 2; on CIFAR-10 CoDFe learns "
        f"nothing in the 5,000 queries it had (figure 2), so nothing settles; DaST: {_LONG}",
        run("codfe-table3", "nothing beside the copies of codfe-fig2; CIFAR-10's 166,410 queries, an hour a view"),
        instead=False,
    ),
    Item(
        "Figure 4 (appendix): DaST at length",
        "src/leakmeter/extraction/dast.py src/leakmeter/studies/codfe/dast.py",
        _GAMES,
        "fluctuates below CoDFe",
        told("codfe-dast"),
        "its authors' runs have millions of queries, in steps of 500; here as many steps as two million buy",
        run("codfe-dast", "20 minutes a seed"),
    ),
)

_MILLI = (
    Item(
        "Algorithm 1, Theorem 1: recovery of f",
        f"{_PAPER} {_EXACT}secant.py",
        _TESTED,
        "O(h log(h/δ)) gradient queries",
        told("exact-queries", "secant, 1 outputs, h=1024", "secant, 10 outputs, h=1024", "paper, 1 outputs, h=1024"),
        "queries a hidden unit; `secant`, ours, does not search by halves",
    ),
    Item("Algorithm 1a, Theorem 2: recovery of Z", _PAPER, _TESTED, why="the paper's sign in Theorem 2 is set right"),
    Item("Algorithm 1b, Theorem 3: recovery of s", _PAPER, _TESTED, why=_MATH),
    Item("Figure 1: illustration", _PAPER, "", "a drawing", "nothing to measure"),
    Item("Lemma 1", _PAPER, _TESTED, why=_MATH),
    Item("Lemma 2", _PAPER, _TESTED, why=_MATH),
    Item("Lemma 3", _PAPER, _TESTED, why=_MATH),
    Item("Lemma 4", f"{_EXACT}chebyshev.py", _TESTED, why=_MATH),
    Item(
        "Lemmas 5 and 6: differences of χ², products of Gaussians",
        "",
        "tests/extraction/exact/test_lemmas.py",
        why="used in proofs only",
    ),
    Item(
        "Theorem 4, Algorithm 1-MQ: membership queries",
        _VALUES,
        _VALUES_TESTED,
        why="h for the misprinted ε of its denominator",
    ),
    Item("Lemma 7", _VALUES, _VALUES_TESTED, why=_MATH),
    Item("Lemma 8", _VALUES, _VALUES_TESTED, why=_MATH),
    Item("Lemma 9", _VALUES, _VALUES_TESTED, why=_MATH),
    *(
        Item(
            f"Figure {number}: {what}",
            f"src/leakmeter/studies/milli/fig{number}.py src/leakmeter/extraction/gradients.py",
            "tests/studies/test_milli.py",
            "its sentences, each beside ours",
            partial(_milli, number),
            "the widest rungs of the ladder are out of reach of two cores; on CIFAR-10 ResNet-20 stands for ResNet-18 "
            "and VGG11, and students learn for 300 steps",
            run(f"milli-fig{number}", "a day on a GPU for VGG11 and ResNet-18", "--device cuda"),
            instead=False,
        )
        for number, what in ((2, "known model class"), (3, "unknown model class"), (4, "Gaussian queries"))
    ),
    Item(
        "Section 5.3: ten Gaussian queries of the convolutional network, one change at a time",
        "src/leakmeter/studies/milli/gaussian.py src/leakmeter/extraction/gradients.py",
        "tests/studies/test_milli.py",
        "84 % from 10 queries",
        told("milli-gaussian"),
        "the paper gives neither the sizes of its network nor how pixels are scaled, λ or lengths",
        run("milli-gaussian", "eight minutes a seed", "--seed 20 --seeds 1"),
    ),
    Item(
        "Appendix D: SmoothGrad at a thousand times the data's spread beside the raw gradient",
        "src/leakmeter/studies/milli/noise.py",
        "tests/studies/test_milli.py",
        "no difference between gradients and SmoothGrad",
        told("milli-noise"),
        "two layers on MNIST, up to 100 queries; at the large noise the averaged gradients are of another place",
    ),
    Item(
        "Figure 5: SmoothGrad maps, MNIST",
        "src/leakmeter/studies/ours/smoothgrad_maps.py",
        "tests/studies/test_milli.py",
        "maps by eye",
        told("smoothgrad-maps"),
        "a number beside the picture",
    ),
    Item(
        "Figures 6 and 7: SmoothGrad maps, CIFAR-10",
        "src/leakmeter/studies/ours/smoothgrad_maps.py src/leakmeter/studies/strangers.py",
        "tests/studies/test_milli.py",
        "maps by eye",
        told("smoothgrad-maps", records=("smoothgrad-maps-cifar10/smoothgrad-maps",)),
        "a stranger's ResNet-20; a number beside the picture",
        run("smoothgrad-maps", "a minute", "--victim leakmeter.studies.strangers:resnet20 --data cifar10"),
    ),
)

PAPERS = {
    "DFME: data-free model extraction (appendix)": _DFME,
    "CoDFe: collaborative data-free stealing": _CO,
    "Milli et al.: model reconstruction from explanations": _MILLI,
    "STN: certified robustness with additive noise": STN,
}
