"""Says by its name whether a setting holds a secret: one definition for masks, command lines and Spark's event log."""

from __future__ import annotations

import re

# Read by Java, too, as `spark.redaction.regex`.
SECRET_NAME = re.compile(
    r"(?i)secret|passw|pwd|passphrase|token|credential|authorization|cookie|jaas|user[.]info|header[.]|"
    r"connection[-_.]?string|shared[-_.]?access|"
    r"(access|account|private|api|(^|[-_.])x|sse|encryption|customer|shared|signing|auth)[-_.]?key"
)


def unmasked(text: str) -> str:
    """The text as it is: what masks secrets where none are known."""
    return text
