"""DLRM on tables that need not fit: trained on a drawn world, served in three ways."""

from .click_world import ClickWorld, auc
from .dlrm import Dense, Dlrm, all_on_cpu, hierarchy, tables_on_cpu, train

__all__ = [
    "ClickWorld",
    "Dense",
    "Dlrm",
    "all_on_cpu",
    "auc",
    "hierarchy",
    "tables_on_cpu",
    "train",
]
