"""`python -m leakmeter`."""

from leakmeter.cli import main

main()
