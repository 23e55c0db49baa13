"""The certification kit: proves on a user's own server that Tidegate works with it."""

from tidegate.certify.kit import Place, certify, clean, place_of
from tidegate.certify.report import Case, Report, State

__all__ = ["Case", "Place", "Report", "State", "certify", "clean", "place_of"]
