"""What the standards call what an audit finds: data, so that an id is corrected in one place.

MITRE ATLAS 5.6.0, OWASP Machine Learning Security Top Ten (2023), OWASP AISVS 1.0 (2026), NIST AI 100-2 E2025.
"""

from __future__ import annotations

from typing import NamedTuple


class Standard(NamedTuple):
    """One entry of a catalogue."""

    id: str
    name: str
    catalogue: str
    address: str


class Finding(NamedTuple):
    """A kind of finding, and the entries it falls under."""

    id: str
    name: str
    says: str
    advice: str
    standards: tuple[str, ...]


ATLAS, OWASP_ML, AISVS, NIST = "MITRE ATLAS", "OWASP ML Top 10", "OWASP AISVS", "NIST AML"
_ADDRESSES = {
    OWASP_ML: "https://owasp.org/www-project-machine-learning-security-top-10/",
    AISVS: "https://github.com/OWASP/AISVS",
    NIST: "https://doi.org/10.6028/NIST.AI.100-2e2025",
}
_ENTRIES = {
    ATLAS: {
        "AML.T0024.002": "Extract AI Model",
        "AML.T0005.001": "Train Proxy via Replication",
        "AML.T0043.002": "Black-Box Transfer",
        "AML.T0063": "Discover AI Model Outputs",
        "AML.M0002": "Passive AI Output Obfuscation",
        "AML.M0004": "Restrict Number of AI Model Queries",
    },
    OWASP_ML: {"ML05": "Model Theft"},
    AISVS: {
        "11.2.2": "Membership-Inference and Model-Inversion Mitigation",
        **dict.fromkeys(("11.3.1", "11.3.2", "11.3.3", "11.3.4"), "Model-Extraction Defense"),
    },
    NIST: {"NISTAML.031": "Model Extraction"},
}


def _address(catalogue: str, entry: str) -> str:
    if catalogue != ATLAS:
        return _ADDRESSES[catalogue]
    return f"https://atlas.mitre.org/{'mitigations' if entry.startswith('AML.M') else 'techniques'}/{entry}"


STANDARDS = {
    entry: Standard(entry, name, catalogue, _address(catalogue, entry))
    for catalogue, entries in _ENTRIES.items()
    for entry, name in entries.items()
}
_THEFT = ("AML.T0024.002", "AML.T0005.001", "ML05", "NISTAML.031")
FINDINGS = {
    finding.id: finding
    for finding in (
        Finding(
            "copy-fidelity",
            "CopyFidelity",
            "A copy made from the API's answers agrees with the model.",
            "Show less, or put a defense before the model; the report says what each buys and costs.",
            (*_THEFT, "AML.M0002", "11.3.1", "11.3.2", "11.3.3", "11.3.4"),
        ),
        Finding(
            "copy-cost",
            "CopyCost",
            "A copy of a given fidelity costs few queries.",
            "Size the rate limit of one client to the queries a copy needs; the report names it.",
            (*_THEFT, "AML.M0004", "11.2.2", "11.3.1"),
        ),
        Finding(
            "transfer",
            "Transfer",
            "Adversarial examples made on the copy fool the model.",
            "Make the copy dearer, or train the model against such examples.",
            ("AML.T0043.002", "AML.T0005.001"),
        ),
        Finding(
            "informative-answers",
            "InformativeAnswers",
            "What the API shows beside the label makes a copy better.",
            "Show labels, fewer classes or fewer decimals where users need no more.",
            ("AML.T0063", "AML.T0024.002", "AML.M0002"),
        ),
        Finding(
            "audit-unsound",
            "AuditUnsound",
            "A check of the audit itself failed, so that its verdict decides nothing.",
            "Mend what the check names, and audit again.",
            (),
        ),
    )
}
