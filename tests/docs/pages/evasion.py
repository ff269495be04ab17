"""Figures of docs/evasion.md."""

from __future__ import annotations

from tests.docs.readers import Figure, fixed_class, pgd, thief

PAGE, TABLE1 = "docs/evasion.md", "codfe-table1/codfe-table1.json"
SEEDS, TABLE2 = "codfe-table1-seeds/codfe-table1.json", "codfe-table2/codfe-table2.json"
_LINE = "{:.1f} % | {:.0f} % | {:.0f} % | {:.0f} % | {:.0f} % | {:.1f} % | {:.1f} % | {:.1f} % |"
_NIL = "{:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % |"
THIEVES: list[Figure] = [
    *(
        (PAGE, f"{name} | {queries} | {line}" + (" {:.0f} % |" if paper else " |"), file, thief(where))
        for where, name, queries, line, paper, file in (
            ("mnist/probs/procedural", "**MNIST**, `procedural`, probabilities", "2,000", _LINE, False, TABLE1),
            ("mnist/labels/procedural", "`procedural`, labels", "20,000", _LINE, False, TABLE1),
            ("mnist/probs/codfe", "`codfe`, probabilities", "100,000", _LINE, True, TABLE1),
            ("mnist/labels/codfe", "`codfe`, labels", "100,000", _LINE, True, TABLE1),
            ("mnist/probs/dast", "`dast`, probabilities", "100,000", _NIL, True, TABLE1),
            ("mnist/labels/dast", "`dast`, labels", "100,000", _NIL, True, TABLE1),
            ("mnist/probs/codfe", "`codfe`, probabilities, three seeds", "50,000", _LINE, True, SEEDS),
            ("mnist/labels/codfe", "`codfe`, labels, three seeds", "50,000", _LINE, True, SEEDS),
            ("fashion-mnist/probs/codfe", "`codfe`, probabilities, three seeds", "50,000", _LINE, True, SEEDS),
            ("mnist/probs/real", "real images, probabilities, three seeds", "10,000", _LINE, True, TABLE2),
            ("mnist/labels/real", "real images, labels, three seeds", "10,000", _LINE, True, TABLE2),
            ("fashion-mnist/probs/procedural", "`procedural`, probabilities", "20,000", _LINE, False, TABLE1),
            ("fashion-mnist/labels/procedural", "`procedural`, labels", "20,000", _LINE, False, TABLE1),
            ("fashion-mnist/probs/codfe", "`codfe`, probabilities", "100,000", _LINE, True, TABLE1),
            ("fashion-mnist/labels/codfe", "`codfe`, labels", "100,000", _LINE, True, TABLE1),
            ("fashion-mnist/probs/dast", "`dast`, probabilities", "100,000", _NIL, True, TABLE1),
            ("fashion-mnist/labels/dast", "`dast`, labels", "100,000", _NIL, True, TABLE1),
        )
    ),
    (
        PAGE,
        "takes {:.1f} % of inputs there by PGD, {:.1f} % to their second choice and {:.1f} % anywhere; made on the "
        "victim itself {:.1f} % get there, by noise none. The paper has {:.1f} %",
        "codfe-second-class/codfe-table2.json",
        fixed_class,
    ),
    (
        PAGE,
        "take {:.1f} % there from probabilities (the paper {:.1f} %) and {:.1f} % from labels (the paper {:.1f} %)",
        SEEDS,
        lambda found: tuple(
            100 * line[key]
            for view in ("probs", "labels")
            for line in found["table"]
            if line["row"] == f"mnist/{view}/codfe/second class/pgd"
            for key in ("copy", "paper")
        ),
    ),
    (
        PAGE,
        "our PGD ends {:.1f} to {:.1f} points below the best of foolbox and ART, and APGD is as strong or stronger in "
        "{} of {} cells",
        "bench/evasion.json",
        pgd,
    ),
]
