"""What the four papers hold, in their order, for `papers.py`: the papers' numbers here, ours from results/."""

from __future__ import annotations

from papers import (
    NOT,
    Item,
    accuracies,
    claimed,
    claims,
    gradients_fade,
    means_of_logits,
    pools,
    queries,
    queries_a_unit,
    saliency,
    transfers,
)
from papers_stn import STN

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

_DFME = (
    Item(
        "Table 4, CIFAR-10 row",
        "src/leakmeter/studies/dfme/table4.py src/leakmeter/extraction/surrogate.py",
        f"{_SHOW} tests/extraction/test_surrogate.py",
        "95.5 % victim; CIFAR-10 95.2, CIFAR-100 93.5, SVHN 66.6, MNIST 37.2 %",
        pools("cifar10"),
        f"{_SMALL}; the highest of all settings, chosen on test data as in the paper",
    ),
    Item(
        "Table 4, SVHN row",
        "src/leakmeter/studies/dfme/table4.py",
        _SHOW,
        "96.2 % victim; SVHN 96.0, CIFAR-10 96.3, MNIST 89.5, SVHN skew 96.1, random 84 %",
        pools("svhn"),
        _SMALL,
    ),
    Item(
        "Equations 8 and 9: logits from probabilities; section 6.3: their mean is negligible",
        "src/leakmeter/extraction/targets.py "
        "src/leakmeter/studies/dfme/logits.py src/leakmeter/studies/dfme/resnet20.py",
        "tests/extraction/test_targets.py",
        "mean of the logits negligible beside the logits",
        means_of_logits,
        "the mean's share of the logits' size: the claim holds of a real ResNet, not of small victims",
    ),
    Item(
        "Figure 7: images of the generator",
        "src/leakmeter/report/sheet.py",
        "tests/report/test_sheet.py",
        "four images",
        NOT,
        "every run's report shows such a sheet; none is kept of CIFAR-10",
    ),
    Item("Lemma 1: eigenvalues of a softmax's Jacobian", "src/leakmeter/studies/dfme/gradients.py", _LEMMAS, why=_MATH),
    Item("Lemma 2: no vector grows", "src/leakmeter/studies/dfme/gradients.py", _LEMMAS, why=_MATH),
    Item("Lemma 3: Jacobians converge with the outputs", "src/leakmeter/studies/dfme/gradients.py", _LEMMAS, why=_MATH),
    Item(
        "Hypothesis 1: the KL gradient fades beside that of ℓ1",
        "src/leakmeter/studies/dfme/gradients.py",
        _LEMMAS,
        "fades as the student converges",
        gradients_fade,
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
        ours=NOT,
        why="a statement about ideal steps",
    ),
    Item(
        "Theorem 1: convergence over rounds",
        _CODFE,
        _GAMES,
        ours=NOT,
        why="assumes steps small enough; not tested as a statement",
    ),
    Item(
        "Figure 2: accuracy of substitutes",
        "src/leakmeter/studies/codfe/fig2.py",
        _SHOW,
        "MNIST 91 % probabilities, 89 % labels at about 350,000 queries; DaST 30 % and 52 %",
        accuracies(
            "codfe-fig2", ("mnist", "probs", "codfe"), ("mnist", "labels", "codfe"), ("fashion-mnist", "probs", "codfe")
        ),
        "LeNet for both networks; fewer queries",
    ),
    Item("Figure 3: convergence of the loss", _CODFE, "", "falls over rounds", NOT, "the loss is not recorded"),
    Item(
        "Table 1, MNIST",
        "src/leakmeter/studies/codfe/table1.py src/leakmeter/evaluation/transfer.py",
        _SHOW,
        "CoDFe-P FGSM/BIM/PGD 52.0/61.8/60.9 %, targeted 16.0/15.4/15.3 %; DaST-P 24.7/27.9/28.4 %",
        transfers(
            "codfe-table1",
            "mnist/probs/codfe/untargeted/pgd",
            "mnist/labels/codfe/untargeted/pgd",
            "mnist/probs/codfe/targeted/pgd",
            "mnist/probs/dast/untargeted/pgd",
        ),
        "the paper does not state its ε; our targeted is each input's second choice",
    ),
    Item(
        "Table 1, one fixed class for all (the paper's targeted)",
        "src/leakmeter/studies/thieves.py",
        _SHOW,
        "CoDFe-P MNIST FGSM/BIM/PGD 16.0/15.4/15.3 %",
        transfers(
            "codfe-table1",
            "mnist/probs/codfe/second class/fgsm",
            "mnist/probs/codfe/second class/bim",
            "mnist/probs/codfe/second class/pgd",
        ),
        "the paper does not state its ε",
    ),
    Item(
        "Table 1, Fashion-MNIST",
        "src/leakmeter/studies/codfe/table1.py",
        _SHOW,
        "CoDFe-P untargeted BIM/PGD 90.4/92.1 %, targeted 37.3/37.8 %; DaST-P 88.5/89.9, 6.2/5.7 %",
        transfers(
            "codfe-table1",
            "fashion-mnist/probs/codfe/untargeted/pgd",
            "fashion-mnist/probs/codfe/targeted/pgd",
            "fashion-mnist/probs/dast/untargeted/pgd",
        ),
        "the paper does not state its ε; ours is 0.1",
    ),
    Item(
        "Table 1, CIFAR-10",
        "src/leakmeter/studies/codfe/table1.py",
        "",
        "CoDFe-P untargeted 58.6/60.2/60.0 %, targeted 0.22/0.27/0.25 %",
        transfers("codfe-table1", "cifar10/probs/codfe/untargeted/pgd", "cifar10/probs/codfe/targeted/pgd"),
        "–",
    ),
    Item(
        "Table 2: real data",
        "src/leakmeter/studies/codfe/table2.py",
        _SHOW,
        "untargeted FGSM/BIM/PGD 64.0/79.0/78.8 % (P), 61.8/80.2/80.5 % (L)",
        transfers(
            "codfe-table2",
            "mnist/probs/real/untargeted/fgsm",
            "mnist/probs/real/untargeted/pgd",
            "mnist/labels/real/untargeted/pgd",
        ),
        "another ε, other networks",
    ),
    Item(
        "Table 3: queries to the highest accuracy",
        "src/leakmeter/studies/codfe/table3.py",
        _SHOW,
        "CoDFe P, L: MNIST 352,452, 344,414; Fashion-MNIST 445,488, 475,487; CIFAR-10 166,410, 195,466",
        queries(
            "codfe-table3",
            ("mnist", "probs", "codfe"),
            ("mnist", "labels", "codfe"),
            ("fashion-mnist", "probs", "codfe"),
            ("mnist", "probs", "dast"),
        ),
        f"the highest is lower, and found sooner; DaST: {_LONG}",
    ),
    Item(
        "Figure 4 (appendix): DaST at length",
        "src/leakmeter/extraction/dast.py",
        _GAMES,
        "fluctuates below CoDFe",
        accuracies("codfe-fig2", ("mnist", "probs", "dast")),
        _LONG,
    ),
)

_MILLI = (
    Item(
        "Algorithm 1, Theorem 1: recovery of f",
        f"{_PAPER} {_EXACT}secant.py",
        _TESTED,
        "O(h log(h/δ)) gradient queries",
        queries_a_unit,
        "queries a hidden unit; `ours` does not search by halves",
    ),
    Item("Algorithm 1a, Theorem 2: recovery of Z", _PAPER, _TESTED, why="the paper's sign in Theorem 2 is set right"),
    Item("Algorithm 1b, Theorem 3: recovery of s", _PAPER, _TESTED, why=_MATH),
    Item("Figure 1: illustration", _PAPER, "", why="a drawing"),
    Item("Lemma 1", _PAPER, _TESTED, why=_MATH),
    Item("Lemma 2", _PAPER, _TESTED, why=_MATH),
    Item("Lemma 3", _PAPER, _TESTED, why=_MATH),
    Item("Lemma 4", f"{_EXACT}chebyshev.py", _TESTED, why=_MATH),
    Item(
        "Lemmas 5 and 6: tails of χ² and of products of Gaussians",
        "",
        "",
        ours="used in proofs only",
        why="not implemented, not tested",
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
            claimed(f"milli-fig{number}"),
            claims(f"milli-fig{number}"),
            "MNIST only: what was not run stands in the JSON; CIFAR-10 is " + NOT,
        )
        for number, what in ((2, "known model class"), (3, "unknown model class"), (4, "Gaussian queries"))
    ),
    Item(
        "Figure 5: SmoothGrad maps, MNIST",
        "src/leakmeter/studies/ours/smoothgrad_maps.py",
        "tests/studies/test_milli.py",
        "maps by eye",
        saliency,
        "a number beside the picture",
    ),
    Item(
        "Figures 6 and 7: SmoothGrad maps, CIFAR-10",
        "src/leakmeter/studies/ours/smoothgrad_maps.py",
        "",
        "maps by eye",
        NOT,
        "`--victim` and `--data` show them for any network",
    ),
)

PAPERS = {
    "DFME: data-free model extraction (appendix)": _DFME,
    "CoDFe: collaborative data-free stealing": _CO,
    "Milli et al.: model reconstruction from explanations": _MILLI,
    "STN: certified robustness with additive noise": STN,
}
