"""Creates a file in S3 only if it does not exist, by a conditional request (If-None-Match).

Used by the manifest, because no Spark writer makes such a request. Never overwrites a file or shows credentials.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import extras
from tidegate.errors import EnvironmentMissing, WriteError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"s3[an]?://")
_TAKEN = (409, 412)  # another one is there, or is on its way
_NO_LOGIN = frozenset({"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"})


def on_s3(path: str) -> bool:
    """Whether the path is in S3 or in a store that speaks as it does.

    Example:
        >>> on_s3("s3a://bucket/orders"), on_s3("s3://bucket/orders"), on_s3("/mnt/s3/orders"), on_s3("gs://bucket")
        (True, True, False, False)
    """
    return _SCHEME.match(path) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The bucket that a path lies in, reached with what the session says of it, else as every client of AWS does."""

    spark: SparkSession
    path: str

    def need(self, path: str) -> None:
        """Makes sure that files can be put there, and that one which is there is not put again.

        Args:
            path: of a file that may be written for this question; it stays.

        Raises:
            EnvironmentMissing: no client of S3 is installed.
            WriteError: the store refuses the login, or puts a file that is there already.
        """
        for _ in range(2):
            if not self.put(path, ""):
                return
        raise WriteError(
            f"the store of {self.path} overwrites an existing file although the request forbids it (If-None-Match)",
            hint="Two concurrent loads would lose rows there: load into a Delta or Iceberg table.",
        )

    def put(self, path: str, text: str) -> bool:
        """Whether the file was put; False when one is there.

        Raises:
            EnvironmentMissing: as for `need`.
            WriteError: the store denied access, or the bucket does not exist.
            Exception: nobody knows whether it was put: the connection broke off, say.
        """
        try:
            self._files().pipe_file(_SCHEME.sub("", path), text.encode(), mode="create")
        except (PermissionError, FileNotFoundError) as error:
            raise self._refused() from error
        except Exception as error:
            if type(error).__name__ in _NO_LOGIN:
                raise self._refused() from error
            if isinstance(error, FileExistsError) or _status(error) in _TAKEN:
                return False
            raise
        return True

    def _files(self) -> Any:
        try:
            import s3fs  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second, for folders in S3 alone
        except ImportError as error:
            raise EnvironmentMissing(
                "the package s3fs is not installed, which is needed to write a manifest entry to S3 only if it does "
                "not exist",
                hint=f"{extras.hint('s3')} Or load into a Delta or Iceberg table.",
            ) from error
        return s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False, **self._settings())

    def _settings(self) -> dict[str, Any]:
        """What Spark is told of this bucket, in the client's words; nothing where it finds all by itself."""
        bucket = _SCHEME.sub("", self.path).partition("/")[0]

        def setting(name: str) -> str | None:
            return self._conf(f"bucket.{bucket}.{name}") or self._conf(name)

        endpoint = setting("endpoint")
        if endpoint and "://" not in endpoint:
            endpoint = f"http{'' if setting('connection.ssl.enabled') == 'false' else 's'}://{endpoint}"
        named = {
            "endpoint_url": endpoint,
            "key": setting("access.key"),
            "secret": setting("secret.key"),
            "token": setting("session.token"),
        }
        found: dict[str, Any] = {name: value for name, value in named.items() if value}
        if region := setting("endpoint.region"):
            found["client_kwargs"] = {"region_name": region}
        if setting("path.style.access") == "true":
            found["config_kwargs"] = {"s3": {"addressing_style": "path"}}
        return found

    def _conf(self, name: str) -> str | None:
        from pyspark.errors import PySparkException  # noqa: PLC0415 - importing pyspark takes a second

        for prefix in ("fs.s3a.", "spark.hadoop.fs.s3a."):
            try:
                if value := self.spark.conf.get(f"{prefix}{name}", None):
                    return value
            except PySparkException:
                return None  # a session that tells nothing of its store
        return None

    def _refused(self) -> WriteError:
        return WriteError(
            f"the store of {self.path} denied access, or the bucket does not exist",
            hint="Correct the credentials where the script runs: environment, profile, machine role, or Spark's "
            "`spark.hadoop.fs.s3a.…`.",
        )


def _status(error: BaseException) -> int | None:
    """The store's own number for its refusal."""
    response: Any = getattr(error.__cause__ or error, "response", None)
    return response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
