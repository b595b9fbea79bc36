"""What the Spark API says of wrong arguments: its own parameters, not the options of commands. No session is needed."""

from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.python_words import assert_no_python_words
from tests.support.table import check_rows
from ticdc_bridge import changelog, decode, encode, reconcile, spark_session, transcode
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.pipeline.arguments import schemas_of, with_parameter_names
from ticdc_bridge.spark_jobs.spark.data_source import SourceOptions
from ticdc_bridge.spark_jobs.spark.errors import error_of


class _Frame:
    """As much of a DataFrame as is looked at before its columns are."""

    sparkSession = dtypes = None


_CALLS: tuple[tuple[Any, dict[str, Any], str], ...] = (
    (decode, {"format": "avro", "registry": "localhost:8081"}, "registry='localhost:8081'"),
    (decode, {"format": "avro", "registry": "http://127.0.0.1:1x"}, "registry="),
    (decode, {"format": "avro"}, "registry= or schemas="),
    (decode, {"format": "avro", "schemas": "no.jsonl"}, "schemas= no.jsonl"),
    (decode, {"format": "canal-json", "ddl": "no.jsonl"}, "ddl= no.jsonl"),
    (decode, {"format": "canal-json", "history": "localhost"}, "history='localhost'"),
    (decode, {"format": "canal-json", "claim_checks": "no"}, "claim_checks= no"),
    (decode, {"format": "canal-json", "options": {"x": 1}}, "option 'x'"),
    (transcode, {"from_format": "open", "to_format": "avro", "to_registry": "x"}, "registry='x'"),
    (encode, {"format": "open", "ddl": "no.jsonl"}, "ddl= no.jsonl"),
)


def test_errors_name_parameters() -> None:
    def check(row: tuple[Any, dict[str, Any], str]) -> None:
        function, arguments, needed = row
        with pytest.raises(SetupError) as caught:
            function(_Frame(), **arguments)
        assert needed in str(caught.value)
        assert "--" not in str(caught.value)
        assert_no_python_words(str(caught.value))

    rows = [row for row in _CALLS if row[0] is not encode]
    check_rows(rows, check, lambda row: (row[0].__name__, row[1]))


def test_the_data_source_names_its_options() -> None:
    def check(row: tuple[dict[str, str], str]) -> None:
        with pytest.raises(SetupError) as caught:
            _ = SourceOptions({"path": "m.jsonl", **row[0]}).config
        assert row[1] in str(caught.value)
        assert "--" not in str(caught.value)

    check_rows((
        ({"format": "avro", "registry": "localhost:8081"}, "registry='localhost:8081'"),
        ({"format": "open", "ddl": "no.jsonl"}, "ddl= no.jsonl"),
        ({"format": "open", "claim_checks": "no"}, "claim_checks= no"),
    ), check)  # fmt: skip


def test_what_is_no_data_frame() -> None:
    def check(frame: Any) -> None:
        arguments: dict[Any, dict[str, Any]] = {
            decode: {"format": "open"}, encode: {"format": "open"},
            transcode: {"from_format": "open", "to_format": "avro"},
        }  # fmt: skip
        for function, given in arguments.items():
            with pytest.raises(SetupError, match="a Spark DataFrame with key and value is needed"):
                function(frame, **given)

    check_rows(([b"x"], b"x", "file.jsonl", None, {"key": b"k"}), check, repr)


def test_arguments_of_other_types() -> None:
    """Of a function with arguments of its own, and of one that hands them on; a whole number is a number."""
    rows: list[tuple[Any, str]] = [
        (lambda: changelog(_Frame(), into="delta:x", table=5, format="open"), "table is of type int: a text"),  # type: ignore[arg-type]
        (lambda: changelog(_Frame(), into="delta:x", table="a.b", format="open", options=5), "options is of type int"),  # type: ignore[arg-type]
        (lambda: reconcile("delta:x", table="a.b", wait="60s"), "wait is of type str: a number"),  # type: ignore[arg-type]
        (lambda: reconcile("delta:x", table="a.b", wait=60), "compare with what"),
        (lambda: spark_session("a", packages="g:a:v"), "packages is of type str: a list of texts"),
        (lambda: spark_session("a", config="b"), "config is of type str: an object"),  # type: ignore[arg-type]
    ]

    def check(row: tuple[Any, str]) -> None:
        with pytest.raises(SetupError, match=row[1]):
            row[0]()

    check_rows(rows, check, lambda row: row[1])


def test_schemas_win_over_a_registry() -> None:
    meta = Golden("avro", "evolution.ext1").meta_file
    with pytest.warns(UserWarning, match="schemas= is used"):
        assert with_parameter_names(schemas_of)("avro", "http://127.0.0.1:9", meta).newest("no") is None


def test_what_an_object_stores_driver_says() -> None:
    def check(row: tuple[str, str]) -> None:
        error = error_of(RuntimeError(row[0]))
        assert error is not None
        assert (error.code, error.detail) == ("STORE_UNREACHABLE", row[1])

    no_keys = (
        "Spark has no credentials for S3: give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_PROFILE, a role)"
    )
    check_rows((
        ("org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://b/t': Bucket does not exist",
         "s3a://b/t: there is no such bucket"),
        ("java.nio.file.AccessDeniedException: s3a://b/t/_delta_log: getFileStatus on s3a://b: Forbidden",
         "s3a://b/t/_delta_log: access is denied: give credentials that may read and write there"),
        ("SdkClientException: Unable to load credentials from any of the providers in the chain",
         f"an object store: {no_keys}"),
    ), check)  # fmt: skip


def test_an_object_store_without_its_driver() -> None:
    def check(text: str) -> None:
        error = error_of(RuntimeError(text))
        assert error is not None
        assert error.code == "JAR_MISSING"
        assert "s3a" in error.detail

    check_rows((
        "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
        'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"',
    ), check)  # fmt: skip
