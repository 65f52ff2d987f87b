"""Leaves passwords and other secrets out of texts, such as errors, logs and recorded commands."""

from __future__ import annotations

import re

PASSWORD_OF_URL = re.compile(
    r"(?<=://)[^\s/@:]*:[^\s/]*@|(?<=http://)[^\s/]*@|(?<=https://)[^\s/]*@"
    r"|(?<=://)[^\s/@:\[]*:(?!\d*/)[^\s@'\"]{0,200}@",  # with slashes, which do not follow a port
    re.IGNORECASE,
)
"""User and password of a URL, up to the last @ of its host, as passwords may have ? and # that are not escaped."""


_PASSWORD_OF_ORACLE = re.compile(  # of JDBC, user/password@//host
    r"(oracle:\w+:)[^\s/@'\"]{1,200}/(?:\"[^\"\n]{0,200}\"|[^\s'\"]{0,200})@", re.IGNORECASE
)


_TYPE = r"(?:True|False|None|drop|string|bytes|bool|image|audio|class|u?int\d{1,2}|float\d{2})(?![\w.-])"
"""Values that are no secret, as in `--feature password=string`."""
_NAME = r"[\w.-]*(?:password|passwd|pwd|passphrase|secret|account_?key|access_?key|api[_-]?key)"
_TOKEN = r"[\w.-]*(?:signature|sig|token)"
_CHARACTER = r"(?:[^\s;\"\\]|\\(?!\")|\"(?![,:}\]\s]|$))"  # of a value; quotes before a delimiter of JSON end it
_END = r"(?:[\\'\")\]}>,.:]{0,5}(?:\s|$)|\\\"|\"[,:}\]])"  # of a value, before punctuation at the end of a word


_QUERY_PARAMETER = re.compile(  # ? and & may be escaped
    rf"((?:(?<=[?&])|(?<=%3F)|(?<=%26))(?:{_NAME}|{_TOKEN})=)"
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


def without_passwords(text: str) -> str:
    """Returns a text without the user and password of URLs, and without secrets in queries and connection strings.

    >>> without_passwords("jdbc:sqlserver://h:1433;user=sa;password=a:b: failed")
    'jdbc:sqlserver://h:1433;user=sa;password=***: failed'
    >>> without_passwords("jdbc:oracle:thin:me/secret@//h:1521/x"), without_passwords("Driver={x};UID=me;PWD=secret")
    ('jdbc:oracle:thin:***@//h:1521/x', 'Driver={x};UID=me;PWD=***')
    >>> without_passwords("GET http://me:secret@host:9000/x failed"), without_passwords("abfs://data@account/x")
    ('GET http://***@host:9000/x failed', 'abfs://data@account/x')
    >>> without_passwords("https://host/a.zip?X-Amz-Expires=60&X-Amz-Signature=0a1b: status 403")
    'https://host/a.zip?X-Amz-Expires=60&X-Amz-Signature=***: status 403'
    """
    if "@" in text:
        text = _PASSWORD_OF_ORACLE.sub(r"\1***@", PASSWORD_OF_URL.sub("***@", text))
    return _SETTING.sub(r"\1***", _QUERY_PARAMETER.sub(r"\1***", text)) if "=" in text else text
