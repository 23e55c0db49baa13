"""Marks the options that are a share of something, so that people may also write them in percent."""

from __future__ import annotations

from typing import Annotated

Fraction = Annotated[float, "fraction"]
"""A share: 0.05, or `5%` in the project file."""
