"""`leakmeter data ls` and `data fetch`."""

from __future__ import annotations

from typing import Annotated

import typer

from leakmeter.commands import options


def data_ls(data_dir: options.DataDir = None) -> None:
    """Says which datasets are here, and how to get the rest."""
    from leakmeter.data.catalogue import listing

    for row in listing(data_dir):
        options.say(
            f"{row.name:14} {row.split:6} {row.found:>7,} of {row.published:>7,}  {row.where}  {row.note}".rstrip()
        )


def data_fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist, cifar10, cifar100 or svhn")],
    data_dir: options.DataDir = None,
    display: options.Display = None,
) -> None:
    """Downloads a dataset and checks what came."""
    from leakmeter.data.fetch import fetch

    options.say(fetch(name, data_dir=data_dir, progress=options.display(display)))
