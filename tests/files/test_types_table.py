"""The page says what becomes of which content."""

from tests.files.types_table import PAGE, page_with, table


def test_the_page_has_the_table_that_the_code_makes():
    assert PAGE.read_text("utf-8") == page_with(table()), "run: python -m tests.files.types_table"
