"""How far the prediction of a classifier smoothed by Gaussian noise cannot change: radii, confidence, sampling."""

from leakmeter.certificates.confidence import clopper_pearson, high_probability_accuracy
from leakmeter.certificates.dual import dual_certified, dual_loss, worst_margins
from leakmeter.certificates.linf import linf_radius
from leakmeter.certificates.pixeldp import pixeldp_analytic_radius, pixeldp_radius
from leakmeter.certificates.renyi import renyi_radius
from leakmeter.certificates.smoothing import Certificate, certify, predict
from leakmeter.certificates.tight import tight_radius

__all__ = [
    "Certificate",
    "certify",
    "clopper_pearson",
    "dual_certified",
    "dual_loss",
    "high_probability_accuracy",
    "linf_radius",
    "pixeldp_analytic_radius",
    "pixeldp_radius",
    "predict",
    "renyi_radius",
    "tight_radius",
    "worst_margins",
]
