"""docs/properties.md is the page that its generator writes."""

from tools.docs.properties import TARGET, page


def test_the_page_is_the_one_that_its_generator_writes() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(), "run: python -m tools.docs.properties"
