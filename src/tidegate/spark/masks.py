"""Keeps secrets out of Spark's event log and off command lines, whatever the setting is called that holds one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.core.secret_names import SECRET_NAME, pattern_of
from tidegate.errors import ConfigError, EnvironmentMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENT_LOG = "spark.eventLog.enabled"
REGEX = "spark.redaction.regex"
IN_PLANS = "spark.sql.redaction.string.regex"
SPARKS_OWN = "(?i)secret|password|token|access[.]?key"  # unless it was started with another


@dataclass(frozen=True, slots=True)
class Masks:
    """What no event log and no command line may show.

    Args:
        secrets: values; settings whose names say so are secret in any case.
    """

    secrets: tuple[str, ...] = field(default=(), repr=False)

    def hide(self, key: str, value: str) -> bool:
        """Whether a setting is or contains a secret."""
        return key == IN_PLANS or bool(SECRET_NAME.search(key)) or self._holds(value)

    def _holds(self, value: str) -> bool:
        return any(re.search(pattern_of(secret), value) for secret in self.secrets)

    def need_unshown(self, stated: Mapping[str, str]) -> None:
        """Refuses a secret in Java's options, which are on the command line.

        Args:
            stated: settings as the project states them; our own options hold no secret, whatever word it is.

        Raises:
            ConfigError: one holds a secret.
        """
        if shown := next((key for key in sorted(stated) if "JavaOptions" in key and self._holds(stated[key])), None):
            raise ConfigError(
                f"spark: conf: {shown} holds a secret, and everybody on the machine can read the options of Java",
                hint="Put the secret into a setting of its own, into a file or into the environment.",
            )

    def masked(self, conf: Mapping[str, str]) -> dict[str, str]:
        """The settings, and those by which a Spark that starts with them masks what is secret, in plans too."""
        named = sorted(key for key, value in conf.items() if self.hide(key, value) and not SECRET_NAME.search(key))
        # The log also lists Hadoop's settings, without Spark's prefix.
        hidden = [re.escape(key.removeprefix("spark.hadoop.")) for key in (*named, IN_PLANS)]
        found = {**conf, REGEX: "|".join([conf.get(REGEX, SECRET_NAME.pattern), *hidden])}
        return found | ({IN_PLANS: "|".join(map(pattern_of, self.secrets))} if self.secrets else {})

    def need(self, session: SparkSession, settings: Iterable[tuple[str, str]]) -> None:
        """An event log tells the settings of every job, and masks only those that Spark was started with.

        Raises:
            EnvironmentMissing: the event log of that Spark would show one.
        """
        if str(session.conf.get(EVENT_LOG, "false")).lower() != "true":
            return
        masks = session.conf.get(REGEX, SPARKS_OWN) or ""
        for key, value in settings:
            if self.hide(key, value) and not (re.search(masks, key) and session.conf.get(key, None) == value):
                raise EnvironmentMissing(
                    f"the Spark session writes an event log, which would show what {key} is",
                    hint=f"Start Spark with this setting, matched by `{REGEX}`, or with `{EVENT_LOG}=false`.",
                )
