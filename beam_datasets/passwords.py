"""Leaves passwords and other secrets out of texts, such as errors, logs and recorded commands."""

from __future__ import annotations

import re

PASSWORD_OF_URL = re.compile(
    r"(?<=://)[^\s/@:]*:[^\s/]*@|(?<=http://)[^\s/]*@|(?<=https://)[^\s/]*@"
    r"|(?<=://)[^\s/@:\[]*:(?!\d*/)[^\s@'\"]{0,200}@",  # with slashes, which do not follow a port
    re.IGNORECASE,
)
"""User and password of a URL, up to the last @ of its host, as passwords may have ? and # that are not escaped."""


_SQLPLUS = r"\bsqlplus(?:['\"],)?\s+(?:['\"]?-\w+['\"]?,?\s+){0,3}['\"]?"


_PASSWORD_OF_ORACLE = re.compile(  # of JDBC and SQL*Plus, user/password@//host, and of a text without the prefix
    rf"(oracle:\w+:|{_SQLPLUS})"
    r"[^\s/@'\"]{1,200}/(?:\"[^\"\n]{0,200}\"|[^\s'\"]{0,200})@"
    r"|(?<![\w./:@-])\w[\w.$#-]{0,100}/[^\s@'\"]{1,200}@(?=//|[\w.-]{1,200}:\d{2,5}[/:])",
    re.IGNORECASE,
)


_TYPE = (
    r"(?:\.\.\.|True|False|None|drop|str|string|bytes|int|float|bool|image|audio|class|u?int\d{1,2}|float\d\d)"
    r"(?![\w.-])"
)
"""Values that are no secret, as in `--feature password=string`."""
_SECRET = (
    r"(?:password|passwd|pwd|passphrase|secret|(?:access|account|api|private|secret|storage|subscription)[._-]?key"
    r"|account\.key\.[\w.]+|kaggle_key)"
)
_NAME = rf"[\w.-]*{_SECRET}"
_TOKEN_WORD = r"(?:signature|token|(?:(?<![a-z])|(?<=%3F))(?:sig|auth))"
_TOKEN = rf"[\w.-]*{_TOKEN_WORD}"
_NO_TOKEN = (  # a number, as of max_token; words, as of the signature of a model
    r"(?!(?:\s*[:=]\s*['\"]?\d+|(?<=signature)\s*[:=]\s*['\"]?(?-i:[a-z]+\d{0,3}(?:_[a-z]+\d{0,3})+))"
    r"[.:]?(?![^\s'\",;)\]}]))"
)
_CHARACTER = r"(?:[^\s;\"\\]|\\(?!\")|\"(?![,:}\]\s]|$))"  # of a value; quotes before a delimiter of JSON end it
_END = r"(?:[\\'\")\]}>,.:]{0,5}(?:\s|$)|\\\"|\"[,:}\]])"  # of a value, before punctuation at the end of a word


_QUERY_PARAMETER = re.compile(  # ? and & may be escaped
    rf"((?:(?<=[?&])|(?<=%3F)|(?<=%26))(?:{_NAME}|{_TOKEN}|key(?==[^\s&]{{16}}))=)"
    rf"(?:(?!&|%26){_CHARACTER}|;)+?(?=&|%26|{_END})",
    re.IGNORECASE,
)


_SETTING = re.compile(  # of a connection string, as of JDBC and ODBC, in which ; , ) or a space ends an unquoted value
    rf"((?<![\w.?&-]){_NAME}=(?!=|{_TYPE})|;\s*(?:{_NAME}|{_TOKEN})\s*=\s*)"
    r"(?:\{(?:[^}\n]|\}\})*\}|\"(?:[^\"\n]|\"\")*\"|'(?:[^'\n]|'')*'(?=[\s;,)]|$)"
    r"|(?:(?!:\s|\s+\w+=|,\s*\w+=|\)\W)[^;\n\"]){1,200}?(?=;\s*(?:[a-z][\w .-]{0,50}=|$))"  # may contain spaces
    rf"|{_CHARACTER}+?(?=;|,\s*\w+=|\)(?!\w)|{_END}))",
    re.IGNORECASE,
)


_LAST_SETTING = re.compile(  # of a connection string, in which spaces may be of the value or follow it
    rf"((?:^|;\s*){_NAME}\s*=(?!\s*(?:{_TYPE}|[{{'\"]))\s*)"
    r"(?:(?!:\s|\s-|,\s*\w+=|\\['\"])[^;=\n'\"]|=(?=[=:]|$))+(?=:\s|\s-|\\?['\"]|$)",
    re.IGNORECASE | re.MULTILINE,
)


_ENCODED = re.compile(  # percent-encoded, perhaps more than once: name=value, "name": "value"
    rf"((?:{_SECRET}|{_TOKEN_WORD})(?:%(?P<twice>(?:25)*)3D"
    r"|%(?P<quoted>(?:25)*)22(?:\+|%(?P=quoted)20)*%(?P=quoted)3A(?:\+|%(?P=quoted)20)*%(?P=quoted)22))"
    r"(?:(?!%(?:(?P=twice)|(?P=quoted))(?:26|3B|22|7D|27|2C))[^\s&;,'\"<>)])+",
    re.IGNORECASE,
)


_ENCODED_URL = re.compile(  # ://user:password@
    r"(%((?:25)*)3A%\2(?:2F)%\2(?:2F))(?:(?!%\2(?:2F))[^\s&;,'\"<>)]){1,200}?(?:%\2(?:3A)[^\s&;,'\"<>)]{1,500}?)?"
    r"(?=%\2(?:40))",
    re.IGNORECASE,
)


_QUOTED = re.compile(  # "name": "value" of JSON, of a dict and of texts in them, whose quotes have the same backslashes
    rf"((?:{_SECRET}(?=(?:\\*['\"])?\s*:\s*b?\\*['\"](?!{_TYPE}))"
    rf"|{_TOKEN_WORD}(?=(?:\\*['\"])?\s*:\s*b?\\*['\"][^'\"\n]{{8,}})(?=[^'\"\n]*['\"][^'\"\n]*['\"][^'\"\n]*\d))"
    r"(?P<quote>\\*['\"])\s*:\s*b?(?P=quote))(?!(?P=quote))[^\n]{1,5000}?(?=(?<!\\)(?P=quote))",
    re.IGNORECASE,
)


_ASSIGNED = re.compile(  # variables of an environment or an INI file, arguments of Python, headers of HTTP
    rf"((?:{_SECRET}|{_TOKEN_WORD}{_NO_TOKEN})(?:\s*=\s*|:\s*)['\"]?)(?!\*\*\*)"
    rf"(?=[^\s'\"(\[]{{0,500}}\d)[^\s'\"(\[]{{8,}}?(?=[;&'\"]|{_END})"
    rf"|(^\s*{_NAME}:\s*)(?!{_TYPE})[^\s'\"*(\[]+$",
    re.IGNORECASE | re.MULTILINE,
)


_OPTION = re.compile(  # of a command line, also as a list of Python or JSON
    rf"(--[\w.-]{{0,50}}(?:{_SECRET}(?:\s+|['\"],\s*)|{_TOKEN_WORD}['\"],\s*|{_TOKEN_WORD}\s+(?=['\"]?[^\s'\"]{{0,500}}\d))['\"]?)"
    r"(?!-)[^\s'\"]+",
    re.IGNORECASE,
)


_USER_OPTION = re.compile(  # user:password of curl and wget; numbers are of a user and a group, or a line of a file
    r"((?<![\w-])(?:-u|-[fgijklnoqrsv]{1,6}u(?=[\s'\"])|--(?:(?:proxy|http|ftp)-)?user)(?:\s*|=|['\"],\s*)"
    r"(?P<quote>['\"])?(?!\w+://|\d+:\d+\b|[\w./-]+\.py:\d+\b)[^\s'\":,/-]"
    r"(?(quote)(?:(?!(?P=quote))[^:\n]){0,100}|[^\s'\":,]{0,100}):)"
    r"(?(quote)(?:\\.|(?!(?P=quote))[^\n])+|(?:'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"]+))",
    re.IGNORECASE,
)


_LOGIN_OF_SQLPLUS = re.compile(  # user/password without a database
    rf"({_SQLPLUS}[^\s/@'\"]{{1,200}}/)(?:\"[^\"\n]*\"|[^\s'\"@]+)", re.IGNORECASE
)


_HEADER = re.compile(  # whose value may have spaces, quotes and more
    r"((?:authorization|cookie(?!\s*[:=]\s*\d+(?:\s|$)))(?:\s*[:=]\s*|\\*['\"]\s*[:,]\s*))"
    r"(?:b?(?P<quote>\\*['\"])[^\n]{0,5000}?(?<!\\)(?P=quote)|[^\n'\"]+(?:\"[^\"\n]*\"[^\n'\"]*)*)"
    r"|(\bBearer\s+)(?=[^\s'\"]{0,500}\d)[\w.~+/=-]{8,}",
    re.IGNORECASE,
)


_ELEMENT = re.compile(rf"(<[\w:.-]{{0,50}}(?:{_SECRET}|{_TOKEN_WORD})>)[^<\n]+(?=</)", re.IGNORECASE)  # of XML


_TOKEN_OF_SERVICE = re.compile(  # of Hugging Face, GitHub, GitLab, Google, OpenAI, Slack; JSON Web Token
    r"(?<![\w-])(?:hf_[A-Za-z0-9]{20,}|gh[opusr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|ya29\.[\w-]{16,}"
    r"|AIza[\w-]{30,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]+\.[\w-]*)"
)


_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL)


_WORDS = (
    "passw",
    "pwd",
    "passphrase",
    "secret",
    "key",
    "token",
    "sig",
    "auth",
    "cookie",
    "bearer",
    "-u",
    "curl",
    "sqlplus",
)
"""A text without these has no secret with a name."""


def may_have_secret(text: str) -> bool:
    """Returns whether a text contains a URL, or a word that may be part of the name of a secret."""
    lowered = text.lower()
    return "://" in text or any(word in lowered for word in _WORDS)


def without_passwords(text: str) -> str:
    """Returns a text without the user and password of URLs, and without secrets that their names or forms show.

    Secrets are the values of names such as password, secret, api_key and token, in queries, connection strings,
    variables, arguments, options, headers, JSON and XML; headers with credentials; tokens of known services; private
    keys.

    >>> without_passwords("jdbc:sqlserver://h:1433;user=sa;password=a:b: failed")
    'jdbc:sqlserver://h:1433;user=sa;password=***: failed'
    >>> without_passwords("jdbc:oracle:thin:me/secret@//h:1521/x"), without_passwords("Driver={x};UID=me;PWD=secret")
    ('jdbc:oracle:thin:***@//h:1521/x', 'Driver={x};UID=me;PWD=***')
    >>> without_passwords("GET http://me:secret@host:9000/x failed"), without_passwords("abfs://data@account/x")
    ('GET http://***@host:9000/x failed', 'abfs://data@account/x')
    >>> without_passwords("https://host/a.zip?X-Amz-Expires=60&X-Amz-Signature=0a1b: status 403")
    'https://host/a.zip?X-Amz-Expires=60&X-Amz-Signature=***: status 403'
    >>> without_passwords('{"password": "a b"}'), without_passwords("PWD%3Dsecret%3BUID%3Dme")
    ('{"password": "***"}', 'PWD%3D***%3BUID%3Dme')
    """
    if "@" in text:
        text = _PASSWORD_OF_ORACLE.sub(r"\1***@", PASSWORD_OF_URL.sub("***@", text))
    if "%" in text:
        text = _ENCODED_URL.sub(r"\1***", text)
    text = _TOKEN_OF_SERVICE.sub("***", _PRIVATE_KEY.sub(r"\1***", text))
    lowered = text.lower()
    if not any(word in lowered for word in _WORDS):
        return text
    text = _HEADER.sub(lambda match: f"{match[1] or match[3]}{match['quote'] or ''}***{match['quote'] or ''}", text)
    for pattern in (
        _QUERY_PARAMETER,
        _LAST_SETTING,
        _SETTING,
        _ENCODED,
        _QUOTED,
        _OPTION,
        _USER_OPTION,
        _LOGIN_OF_SQLPLUS,
        _ELEMENT,
    ):
        text = pattern.sub(r"\1***", text)
    return _ASSIGNED.sub(r"\1\2***", text)
