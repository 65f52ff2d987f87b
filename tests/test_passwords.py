"""Passwords in texts of errors, logs and commands."""

import json
from pathlib import Path

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
        ("token=sk_live_abc1", "token=***"),
        ("signature=0a1b2c3d_4e5f", "signature=***"),
        ("password: 12345678", "password: ***"),
        ("https://h/x?sig=12345678", "https://h/x?sig=***"),
        ("Cookie: 20=abc", "Cookie: ***"),
        ("curl -u admin:1234 https://h", "curl -u admin:*** https://h"),
        ("curl --user 'me:12' h", "curl --user 'me:***' h"),
        ("curl --proxy-user first.last:0000 h", "curl --proxy-user first.last:*** h"),
        ('curl -u "me:p\'w d" h', 'curl -u "me:***" h'),
        ("curl -u 'me:p\"w d' h", "curl -u 'me:***' h"),
        ("curl -u me:'p w' h", "curl -u me:*** h"),
        ('["curl", "-u", "me:p\\"w d", "h"]', '["curl", "-u", "me:***", "h"]'),
        ("sqlplus me/tiger", "sqlplus me/***"),
        ('sqlplus -S me/"p w" x', "sqlplus -S me/*** x"),
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
        "max_token: 100000000",
        "num_token=12345678.",
        "Config(max_token=123456789, auth: 100000000)",
        "signature=resnet50_v1_serving",
        "signature: 'serving_default1', x",
        "cookie: 20 of 100",
        "epoch 2, cookie=20",
        "token: expected a string, got 3",
        "password: missing in example 12345678",
        "unknown feature 'password'. Features: 'password', 'user_name_2'",
        "{'token': 'the', 'secret': 3}",
        '{"password": "string", "private_key": "", "x": 1}',
        "'token': Tensor(shape=(3,), dtype=int32)",
        "max_token=12345, signature=abc",
        "no authorization, and no cookies 12345678",
        "docker run -u 1000:1000 x, python -u x.py:3, date -u: failed",
        "GET /dataset?key=12 and s3://b/x?key=name",
        "tool -u http://host:9000/x refused",
        "tool -u 's3://b/x:1'",
        "python -u dir/x.py:10",
        "docker run --user 100000:100000 x",
        "curl -source:x -authors:y -cpu a:b",
        "sqlplus me@h/x",
        "sqlplus /nolog",
        "sqlplus -S / @dir/x.sql",
        '["setpriv", "--pdeathsig", "KILL"]',
        "gs://b/tokens/00000001-of-00000002: sort_key=abc12345",
        "uses: actions/checkout@v4, org/repo@h",
        "Give it as --token, or --password",
        'storage_options={"secret": "..."}',
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


FORMS = """\
Authorization: Bearer {0}
Authorization: Basic {0}
Authorization: AWS4-HMAC-SHA256 Credential=A/x, SignedHeaders=host;x, Signature={0}
Authorization: SharedKey account:{0}
Authorization: Digest username="u", response="{0}"
curl -H 'Authorization: Bearer {0}' https://h
{{'Authorization': 'Bearer {0}', 'x': 1}}
{{b'Authorization': b'Bearer {0}'}}
[('Authorization', 'Bearer {0}')]
got Bearer {0}
Cookie: session={0}; x=1
x-amz-security-token: {0}
'X-Auth-Token': '{0}'
X-Api-Key: {0}
{{"password": "{0}"}}
{{"password":"{0}","a":1}}
{{"password" : "a {0} b"}}
{{"a": "{{\\"password\\": \\"a b {0}\\"}}"}}
{{\\\\\\"password\\\\\\": \\\\\\"{0}\\\\\\"}}
{{"password": "a\\"{0}"}}
{{"access_token": "{0}", "expires_in": 3599}}
{{"auths": {{"h": {{"auth": "{0}"}}}}}}
{{'client_secret': '{0}'}}
{{"SecretAccessKey" : "{0}", "x": "y"}}
aws_secret_access_key = {0}
export HF_TOKEN={0}
AWS_SESSION_TOKEN='{0}'
AZURE_STORAGE_KEY={0}
connect(user='u', password='{0}')
load('x', token='{0}', y=1)
S3(access_key='AKIA', secret_key='{0}', region='x')
password: {0}
PWD%3D{0}%3BUID%3Dme
https://h/x?url=https%3A%2F%2Fb%3Fsig%3D{0}%26se%3D1
https://h/x?u=a%2526token%253D{0}%2526
odbc_connect=Driver%3D%7Bx%7D%3BPWD%3D{0}
%22password%22%3A%22{0}%22
%22password%22%3A+%22{0}%22
https%3A%2F%2Fu%3A{0}%40h%2Fx
UID=me;PWD=a {0}
PWD=a {0}
Server=h; Password=my {0}
connect u/{0}@//h:1521/x
'u/{0}@h:1521/x'
spark.hadoop.fs.s3a.secret.key={0}
fs.azure.account.key.a.dfs.core.windows.net={0}
--password {0} --x
--token '{0}'
--hf_token={0}
['--password', '{0}']
curl -u me:{0} https://h/x
curl -ume:{0} https://h/x
curl -sSu me:{0} https://h/x
curl -fsSLu 'me:{0}' https://h/x
curl -u corp/me:{0} https://h
curl -u 'my user:{0}' https://h
curl -u me@corp.com:{0} https://h
wget --http-user me:{0} https://h
sqlplus me/{0}
['sqlplus', '-S', 'me/{0}']
curl --user 'me:a {0}' https://h/x
curl --proxy-user=me:{0} https://h
['curl', '-u', 'me:{0}', 'https://h']
sqlplus me/{0}@h/x
sqlplus -S me/{0}@ORCL
['sqlplus', '-S', 'me/{0}@ORCL']
https://h/x?key={0}0123456789
https://h/x?a=1&key={0}0123456789&b=2
<SecretAccessKey>{0}</SecretAccessKey>
<ns:Password>{0}</ns:Password>""".splitlines()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", ["Hunter2xQ9", "Hunter2xQ9+Bc=="])
def test_secrets_of_all_forms_are_removed(form: str, secret: str) -> None:
    secret = secret.replace("+", "%2B").replace("=", "%3D") if "%" in form else secret
    shown = without_passwords(form.format(secret))
    assert "Hunter" not in shown
    assert without_passwords(shown) == shown


@pytest.mark.parametrize("form", FORMS[14:22])
def test_json_without_its_secrets_stays_json(form: str) -> None:
    if form.startswith('{{"'):
        assert json.loads(without_passwords(form.format("Hunter2xQ9"))).keys() == json.loads(form.format("x")).keys()


@pytest.mark.parametrize("prefix", ["hf_", "ghp_", "github_pat_", "glpat-", "ya29.", "AIza", "sk-proj-", "xoxb-"])
def test_tokens_of_services_are_removed_without_a_name(prefix: str) -> None:
    assert without_passwords(f"got {prefix}{'aB3' * 12}.") == "got ***."


def test_private_keys_are_removed() -> None:
    for end in ("\n", "\\n"):
        key = f"-----BEGIN RSA PRIVATE KEY-----{end}MII{end}abc{end}-----END RSA PRIVATE KEY-----{end}x"
        assert without_passwords(key) == f"-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----{end}x"


def test_the_documentation_stays() -> None:
    pages = sorted((Path(__file__).parent.parent / "docs").rglob("*.md"))
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 1000
    assert [without_passwords(line) for line in lines] == lines
