"""docs/configuration.md is the page that its generator writes."""

from tools.docs.configuration import TARGET, page


def test_the_page_of_options_is_what_the_code_says() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(), "run: python -m tools.docs.configuration"
