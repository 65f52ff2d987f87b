"""Passwords in texts of errors, logs and commands."""

import json

import pytest

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.passwords import without_passwords

SECRET = "Hunter2"
TEXTS = [
    f"jdbc:sqlserver://h:1433;user=sa;password={SECRET};databaseName=db;encrypt=true: failed",
    f"Driver={{ODBC 18}};Server=h; UID=me; PWD={SECRET}; x=1",
    f"PWD={SECRET};UID=me",
    f"expected a URL, got 'PWD={SECRET};UID=me'. Give one",
    f"x;Trusted_Connection=yes;Pwd = {SECRET}",
    f"jdbc:db2://h:50000/db:user=me;password={SECRET};",
    f"jdbc:db2://h:50000/db:password={SECRET};user=me;",
    f"jdbc:teradata://h/DATABASE=x,USER=me,PASSWORD={SECRET}",
    f"jdbc:teradata://h/PASSWORD={SECRET},USER=me: failed",
    f"jdbc:mysql://address=(host=h)(user=me)(password={SECRET})/db",
    f"jdbc:mysql://address=(host=h)(password={SECRET})(user=me)/db",
    f"host=h password={SECRET} dbname=x",
    f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET};EndpointSuffix=x",
    f"Endpoint=sb://h/;SharedAccessKey={SECRET}",
    f"--password={SECRET} --x=1",
    f"-Dpassword={SECRET} -Dx=1",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "password",
    [SECRET, "a:b", "p&q2", "p#q", "it's", "a\\b", "x=y", "{a b;c&d}", "{a}}b;c}", '"se cret;x"', '"a""b"', "'s c'"],
)
def test_secrets_of_settings_alone_are_removed(text: str, password: str) -> None:
    assert without_passwords(text.replace(SECRET, password)) == text.replace(SECRET, "***")


@pytest.mark.parametrize("text", [
    f"jdbc:sap://h:30015/?user=me&password={SECRET}", f"https://h/x?token={SECRET}&y=1: status 403",
    f"'https://h/x?a=1%26sig={SECRET}%26b=2', 'x'", f"https://h/x;token={SECRET};y=1",
])  # fmt: skip
@pytest.mark.parametrize("password", [SECRET, "a:b", "p#q", "it's", "a%2Fb%3D", "YWJj=="])
def test_secrets_of_queries_alone_are_removed(text: str, password: str) -> None:
    assert without_passwords(text.replace(SECRET, password)) == text.replace(SECRET, "***")


@pytest.mark.parametrize(
    "text,expected",
    [
        ("x;PWD=a b c;UID=me", "x;PWD=***;UID=me"),
        ("x;AccountKey=YWJj==;y=1", "x;AccountKey=***;y=1"),
        ("x;PWD=a b c;", "x;PWD=***;"),
        ('x;PWD=a"b;UID=me', "x;PWD=***;UID=me"),
        ("https://h/x?password=a\\b&x=1", "https://h/x?password=***&x=1"),
        ("https://h/x?password=it's#y&x=1", "https://h/x?password=***&x=1"),
        ("jdbc:oracle:thin:me/p@ss@//h:1521/x", "jdbc:oracle:thin:***@//h:1521/x"),
        ("jdbc:oracle:oci8:me/secret@h and me@h", "jdbc:oracle:oci8:***@h and me@h"),
        ('jdbc:oracle:thin:me/"p/w x"@h:1521:sid', "jdbc:oracle:thin:***@h:1521:sid"),
        ("mongodb://me:sec/ret@h/x", "mongodb://***@h/x"),
    ],
)
def test_passwords_with_signs(text: str, expected: str) -> None:
    assert without_passwords(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "http://h:80/x@y",
        "s3://bucket/a:b@c",
        "abfs://data@account/x",
        "where=\"token = 'x' and (secret = 3)\": unknown feature 'token'",
        "if password == 3: x",
        "max_token=5, passwords=3",
        "x;password=",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert without_passwords(text) == text


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("url", ["x;PWD=secret", "PWD=secret", "https://h/x?sig=secret", "https://me:secret@h/x"])
def test_json_stays_json(url: str, separators: tuple[str, str]) -> None:
    inner = json.dumps({"url": url, "b": [url]}, separators=separators)
    shown = without_passwords(json.dumps({"inner": inner, "url": url, "b": 1}, separators=separators))
    assert "secret" not in shown
    values = json.loads(shown)
    assert values["b"] == 1
    assert json.loads(values["inner"])["url"] == values["url"]


def test_an_error_shows_no_password() -> None:
    assert str(BeamDatasetsError("got Server=h; PWD=secret; x=1")) == "got Server=h; PWD=***; x=1"


@pytest.mark.parametrize(
    "text",
    ["--feature password=string", "--feature 'my secret=drop'", "load('x', password=True)", "--feature pwd=int64"],
)
def test_types_of_features_are_no_secrets(text: str) -> None:
    """An error that proposes one must contain what to type."""
    assert without_passwords(text) == text
