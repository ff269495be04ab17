"""Figures of docs/certificates.md."""

from __future__ import annotations

from tests.docs.readers import Figure, at, certified, hull, left

PAGE = "docs/certificates.md"
_STN = "{:.1f} % | {:.1f} % | {:.0f} % | {:.1f} % | {:.3f} |"
CERTIFIED: list[Figure] = [
    (
        PAGE,
        "the best at 36/255 (0.05: {:.0f} %, 0.2: {:.0f} %)",
        "stn-dual/stn-dual.json",
        lambda found: tuple(
            100 * point["accuracy"]
            for name in ("STN, sigma 0.05", "STN, sigma 0.2")
            for point in found["cells"][name]
            if point["radius"] == 0.1412
        ),
    ),
    (
        PAGE,
        "to {:.1e} at worst (goal 1e-6). With the unit's convex hull instead, whose program costs a solver, the "
        "optimum is higher on {} of them, and lower on none",
        "stn-dual/stn-dual.json",
        hull,
    ),
    (
        PAGE,
        "it gets right under PGD {:.1f} %, and {:.1f} % are certified; {} are certified and broken",
        "stn-dual/stn-dual.json",
        lambda found: (
            100 * found["cells"]["attacks, linf"]["under_attack"],
            100 * found["cells"]["attacks, linf"]["certified"],
            found["cells"]["attacks, linf"]["certified_and_broken"],
        ),
    ),
    (
        PAGE,
        "at 0.05, {:.0f} % (σ = 0.1) against {:.0f} %; at 36/255, {:.0f} % against {:.0f} %. "
        "That costs 4 points at radius 0 ({:.0f} % against {:.0f} %)",
        "stn-dual/stn-dual.json",
        lambda found: tuple(
            100 * point["accuracy"]
            for radius in (0.05, 0.1412, 0.0)
            for name in ("STN, sigma 0.1", "dual, l2")
            for point in found["cells"][name]
            if point["radius"] == radius
        ),
    ),
    (PAGE, f"| 0.5 | 100,000 | {_STN}", "stn-table1/stn-table1.json", certified("sigma0.5/seed0")),
    (PAGE, f"| 0.7 | 10,000 | {_STN}", "stn-table1/stn-table1.json", certified("sigma0.7/seed0")),
    (PAGE, f"| 1.0 | 10,000 | {_STN}", "stn-table1/stn-table1.json", certified("sigma1/seed0")),
    (
        PAGE,
        f"bfloat16 | 0.5 | 100,000 | {_STN}",
        "stn-table1/stn-table1.json",
        certified("lenet:12, bfloat16/sigma0.5/seed0"),
    ),
    (
        PAGE,
        "| 100 | | {:.1f} % | | {:.1f} % | |",
        "stn-table1/stn-table1.json",
        at("paper/2/certified", "paper/2/natural", times=100),
    ),
    (
        PAGE,
        "{:.1f} times the samples a second of the published kind of loop, {:.1f} times when",
        "bench/certify.json",
        at("times the plain loop/certify", "times the plain loop/certify with torch.compile"),
    ),
    (
        PAGE,
        "takes {:.0f} samples an image instead of 100,000",
        "bench/certify.json",
        at("radius 0.5/sequential samples per image"),
    ),
    (
        PAGE,
        "on 1,000 images ({:.1f} %); {:.0f} MB for one image",
        "bench/certify.json",
        lambda found: (
            100 * found["radius 0.5"]["sequential certified accuracy"],
            round(found["peak megabytes"]["100000"], -1),
        ),
    ),
    (
        PAGE,
        "none of {} flips at 0.99 R, {} at 1.5 R, {} at 3 R",
        "stn-soundness/stn-soundness.json",
        at("cells/0.99 R\x00seed0/attacked", "cells/1.5 R\x00seed0/flipped", "cells/3.0 R\x00seed0/flipped"),
    ),
    (
        PAGE,
        "stability training (average radius {:.3f}) and plain Gaussian training ({:.3f}) are hardly apart, and a "
        "network trained without noise is lost ({:.3f})",
        "stn-fig1/stn-fig1.json",
        at(
            *(
                f"cells/{kind}\x00sigma0.7\x00seed0/bounds/tight/average_radius"
                for kind in ("stability", "gaussian", "plain")
            )
        ),
    ),
    (
        PAGE,
        "at 1.5 the smoothed network keeps {:.1f} % and TRADES {:.1f} %; at l∞ 0.1, {:.1f} % and {:.1f} %; at l∞ 0.3, "
        "for which TRADES was trained, {:.1f} % and {:.1f} %. Examples carried over from a Madry network hurt the "
        "smoothed one far less ({:.1f} % at l∞ 0.3)",
        "stn-fig2/stn-fig2.json",
        left(
            ("stn, white box, l2", 1.5),
            ("trades, white box, l2", 1.5),
            ("stn, white box, linf", 0.1),
            ("trades, white box, linf", 0.1),
            ("stn, white box, linf", 0.3),
            ("trades, white box, linf", 0.3),
            ("stn, transfer, linf", 0.3),
        ),
    ),
    (
        PAGE,
        "at l2 1.5, σ = 0, 0.5, 0.7, 1.0 keep {:.1f}, {:.1f}, {:.1f} and {:.1f} %; at l2 3, {:.1f}, {:.1f}, {:.1f} "
        "and {:.1f} %",
        "stn-fig3/stn-fig3.json",
        left(*((f"sigma {sigma}, l2", eps) for eps in (1.5, 3.0) for sigma in ("0", "0.5", "0.7", "1"))),
    ),
    (
        PAGE,
        "breaks an ordinary network ({:.0f} % left at l2 1.5)",
        "stn-boundary/stn-boundary.json",
        left(("plain, sigma 0, Boundary, l2", 1.5)),
    ),
]
