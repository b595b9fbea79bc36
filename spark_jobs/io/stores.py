"""Object stores by the scheme of a URL: the library that reaches one, what Spark needs for it, and what to say.

Credentials come from the environment, as each store's own tools take them. In this process pyarrow reads and writes
objects; Spark has a driver of Hadoop's for each store (upstream hadoop `hadoop-aws`, `hadoop-azure`; Google's
`gcs-connector`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime.jars import ivy_jar, jars
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings

_TIMEOUT: Final = 20  # seconds until a server that does not answer is called unreachable
_ATTEMPTS = 4


@dataclass(frozen=True)
class Store:
    """A kind of object store.

    schemes: how its URLs begin. spark: the scheme under which Spark has its driver. jars: the pinned set with that
    driver, "" where the user brings it. package: its Maven coordinates. connect: by pyarrow.fs, the file system for the
    part of a URL between :// and /. root: what stands before a path there. credentials: which the environment gives.
    deltalake: the scheme under which deltalake has it, "" where it has not.
    """

    name: str
    schemes: tuple[str, ...]
    spark: str
    jars: str
    package: str
    connect: Callable[[Any, str], Any]
    root: Callable[[str], str]
    credentials: str
    deltalake: str


def _first(*names: str) -> str | None:
    """The first of the variables that is set."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _s3(fs: Any, bucket: str) -> Any:
    endpoint, region = s3_endpoint(), _first("AWS_REGION", "AWS_DEFAULT_REGION")
    if region is None and endpoint is None and not _first("AWS_PROFILE"):
        try:
            region = fs.resolve_s3_region(bucket)
        except OSError:
            region = None  # the first request tells why
    return fs.S3FileSystem(
        endpoint_override=endpoint, region=region or ("us-east-1" if endpoint else None), connect_timeout=_TIMEOUT,
        request_timeout=3 * _TIMEOUT, allow_delayed_open=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )  # fmt: skip


def s3_endpoint() -> str | None:
    """The address of a store that is not Amazon's, if the environment names one."""
    return _first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def _gcs(fs: Any, _bucket: str) -> Any:
    emulator = _first("STORAGE_EMULATOR_HOST")
    scheme, _, host = (emulator or "").rpartition("://")
    return fs.GcsFileSystem(
        anonymous=emulator is not None, endpoint_override=host or None, scheme=scheme or None,
        retry_time_limit=timedelta(seconds=_TIMEOUT / 2),
    )  # fmt: skip


def _azure(fs: Any, authority: str) -> Any:
    _, _, host = authority.rpartition("@")
    account = (
        host.partition(".")[0] if "@" in authority else _first("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
    )
    if not account:
        details = "the account is missing: write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
        raise SetupError("USAGE", details=f"abfs://{authority}: {details}")
    choices: tuple[dict[str, str | None], ...] = (
        {"account_key": _first("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")},
        {"sas_token": _first("AZURE_STORAGE_SAS_TOKEN")},
        {name: _first(f"AZURE_{name.upper()}") for name in ("tenant_id", "client_id", "client_secret")},
        {},  # what the machine's own identity is allowed to
    )
    credentials = next(choice for choice in choices if all(choice.values()))
    return fs.AzureFileSystem(account, **credentials)


def _hdfs(fs: Any, authority: str) -> Any:
    host, _, port = authority.partition(":")
    return fs.HadoopFileSystem(host or "default", int(port) if port.isdecimal() else 0)


STORES: Final = (
    Store(
        "S3", ("s3", "s3a", "s3n"), "s3a", "s3", "org.apache.hadoop:hadoop-aws:VERSION", _s3, lambda bucket: bucket,
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_PROFILE, a role), and AWS_REGION; AWS_ENDPOINT_URL for a"
        " store that is not Amazon's", "s3",
    ),
    Store(
        "Google Cloud Storage", ("gs", "gcs"), "gs", "", "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
        _gcs, lambda bucket: bucket, "GOOGLE_APPLICATION_CREDENTIALS: the file of a service account's key", "gs",
    ),
    Store(
        "Azure", ("abfs", "abfss"), "abfss", "", "org.apache.hadoop:hadoop-azure:VERSION", _azure,
        lambda authority: authority.partition("@")[0],
        "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
        "abfss",
    ),
    Store("HDFS", ("hdfs", "viewfs"), "hdfs", "", "", _hdfs, lambda _: "", "HADOOP_CONF_DIR", ""),
)  # fmt: skip
_BY_SCHEME: Final = {scheme: store for store in STORES for scheme in store.schemes}
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}([^/]*)(?:/(.*))?\Z", re.DOTALL)
_PARAMETERS: Final = re.compile(r"\?[\w-]+=")


@dataclass(frozen=True)
class StoreUrl:
    """A URL in a store: SCHEME://AUTHORITY/KEY."""

    store: Store
    scheme: str
    authority: str
    key: str

    @classmethod
    def of(cls, location: str) -> StoreUrl | None:
        """None for what is no URL of a store. SetupError USAGE: parameters, no bucket, an empty name in the key."""
        match = _URL.match(location)
        if match is None or (store := _BY_SCHEME.get(match[1].lower())) is None:
            return None
        if not match[2] and store.name != "HDFS":
            raise SetupError("USAGE", details=f"{location}: the bucket is missing: {match[1]}://BUCKET/KEY")
        if "//" in f"/{match[3] or ''}" and store.name != "HDFS":
            details = "a key with an empty name between two slashes can't be given: copy the object to another key"
            raise SetupError("USAGE", details=f"{location}: {details}")
        if _PARAMETERS.search(location):
            details = f"parameters of a URL are not read: settings come from the environment: {store.credentials}"
            raise SetupError("USAGE", details=f"{location.partition('?')[0]}?…: {details}")
        return cls(store, match[1].lower(), match[2], match[3] or "")

    @property
    def spark(self) -> str:
        """The same place as Spark calls it."""
        scheme = self.scheme if self.store.name == "HDFS" else self.store.spark
        return f"{scheme}://{self.authority}/{self.key}"

    @property
    def path(self) -> str:
        """The same place in pyarrow's file system."""
        return f"{self.store.root(self.authority)}/{self.key}".rstrip("/")

    @property
    def files(self) -> Any:
        """pyarrow's file system. SetupError STORE_UNREACHABLE where its library can't be had."""
        return _connect(self.store, self.authority)


@lru_cache(maxsize=16)
def _connect(store: Store, authority: str) -> Any:
    try:
        from pyarrow import fs

        return store.connect(fs, authority)
    except (ImportError, OSError, ValueError) as error:
        details = f"this pyarrow has no client for it, or its settings are wrong: {' '.join(str(error).split())[:200]}"
        if store.name == "HDFS":
            details = (
                "this process has no HDFS client (set JAVA_HOME, HADOOP_HOME and CLASSPATH for libhdfs). Tables"
                " (delta:hdfs://…) need none; mount it for files"
            )
        url = f"{store.schemes[0]}://{authority}"
        raise SetupError("STORE_UNREACHABLE", place=url, details=details) from error


_REASONS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"NO_SUCH_BUCKET|bucket does not exist|ContainerNotFound"), "there is no such bucket"),
    (
        re.compile(r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|EXPIRED|TOKEN|CREDENTIAL|HTTP status 40[13]"
                   r"|[Cc]redential|AuthenticationException|OAuth2|Unauthenticated|PermissionDenied|AuthenticationFailed|AuthorizationFailure"),
        "access is denied: give {store.credentials}",
    ),
    (re.compile(r"HTTP status 301|PermanentRedirect|AuthorizationHeaderMalformed"),
     "the bucket is in another region: set AWS_REGION"),
    (re.compile(r"NETWORK_CONNECTION|curlCode|Could not (?:connect|resolve)|[Tt]imed? ?out|Unavailable"),
     "the store can't be reached ({text}): is there a network, and is its address right?"),
)  # fmt: skip
"""What a library says of a request that failed → what is wrong and what to do."""


def store_error(url: str, error: Exception) -> SetupError:
    """What a library raised of a URL, as ours: STORE_UNREACHABLE."""
    known, text = StoreUrl.of(url), " ".join(str(error).split())[:300]
    reason = next((reason for pattern, reason in _REASONS if known and pattern.search(text)), None)
    if known and reason:
        text = reason.format(store=known.store, text=text.partition("operation: ")[2] or text)
    return SetupError("STORE_UNREACHABLE", place=url, details=text)


def spark_location(location: str) -> str:
    """A URL of a store as Spark calls it; anything else as it is."""
    known = StoreUrl.of(location)
    return location if known is None else known.spark


def spark_settings_of(settings: SparkSettings, submitted: bool) -> SparkSettings:
    """The settings with what the stores of the job's places need, also those that a setting names (a warehouse).

    submitted: the JVM runs already, and its jars are the user's. SetupError JAR_MISSING.
    """
    brought = settings.artifacts or settings.conf.get("spark.jars") or os.environ.get("BRIDGE_JARS")
    of_job, files = stores_of(settings.locations), settings.conf.get("spark.jars", "").split(",")
    brought_files = settings.artifacts | {file.rpartition("/")[2] for file in files}
    for store in stores_of([*settings.locations, *settings.conf.values()]):
        defaults = dict(spark_config(store))
        if store.jars and not submitted:
            found = jars(store.jars, brought_files)
            if not found and store in of_job and not any(name.startswith("hadoop-aws") for name in brought_files):
                details = (
                    f"{store.schemes[0]}:// places need Hadoop's driver, which Iceberg's jar for AWS has not: bring it"
                    " (--packages …,org.apache.hadoop:hadoop-aws:VERSION), or have the checkpoint elsewhere"
                )
                raise SetupError("JAR_MISSING", details=details)
            defaults["spark.jars"] = ",".join(map(str, found))
        elif store.package and not (submitted or brought):
            hadoop = [path.stem.rpartition("-")[2] for path in ivy_jar().parent.glob("hadoop-client-api-*.jar")]
            package = store.package.replace("VERSION", (*hadoop, "VERSION")[0])
            details = (
                f"{store.schemes[0]}:// in Spark needs a driver that is not pinned here: give --packages {package}"
                " (or its jar: --conf spark.jars=FILE, or BRIDGE_JARS)"
            )
            raise SetupError("JAR_MISSING", details=details)
        settings = settings.over(defaults)
    return settings


def stores_of(locations: Iterable[str]) -> list[Store]:
    """The stores of places (locations, or settings that may hold one), without repetitions."""
    urls = (StoreUrl.of(location.removeprefix("delta:")) for location in locations if "?" not in location)
    return list(dict.fromkeys(url.store for url in urls if url is not None))


def spark_config(store: Store) -> Mapping[str, str]:
    """Spark's settings for a store, from the environment that its own tools read. Keys stay in the environment."""
    if store.name != "S3":
        return {}
    hadoop, package = "spark.hadoop.fs.s3a", "org.apache.hadoop.fs.s3a"
    settings = {
        "spark.hadoop.fs.s3.impl": f"{package}.S3AFileSystem",
        "spark.hadoop.fs.s3n.impl": f"{package}.S3AFileSystem",
        f"{hadoop}.aws.credentials.provider": f"{package}.TemporaryAWSCredentialsProvider,"
        f"{package}.SimpleAWSCredentialsProvider,software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    }
    if (endpoint := s3_endpoint()) is not None:
        settings |= {f"{hadoop}.endpoint": endpoint, f"{hadoop}.path.style.access": "true"}
    if region := _first("AWS_REGION", "AWS_DEFAULT_REGION") or ("us-east-1" if endpoint else None):
        settings[f"{hadoop}.endpoint.region"] = region
    return settings
