"""How tables and sentences look in notebooks."""

from __future__ import annotations

import pandas as pd
from IPython.core.interactiveshell import InteractiveShell

from mirror.drill import notebook_display
from mirror.drill.notebook_display import Sentences, style_outputs, table_html, text_html


def test_a_table_has_no_index_and_its_headers_can_break() -> None:
    html = table_html(pd.DataFrame([{"last_mirrored_upstream": 3}], index=[77]))
    assert "last mirrored upstream</th>" in html
    assert "77" not in html


def test_words_stand_on_the_left_and_numbers_on_the_right() -> None:
    html = table_html(pd.DataFrame([{"topic": "<orders>", "records": 12345, "seconds": 1.26, "known": True}]))
    assert "left'>&lt;orders&gt;</td>" in html
    assert "right'>12345</td>" in html
    assert "right'>1.26</td>" in html
    assert ">yes</td>" in html


def test_short_names_stay_in_one_line_beside_long_sentences_and_headers_break() -> None:
    html = table_html(pd.DataFrame([{"step name": "audit: copied", "detail": "word " * 40}]))
    assert "white-space:nowrap;text-align:left'>audit: copied</td>" in html
    assert html.count("nowrap") == 1


def test_what_is_missing_is_a_dash() -> None:
    html = table_html(pd.DataFrame([{"a": None, "b": float("nan"), "c": ["x", "y"]}]))
    assert html.count("'>-</td>") == 2
    assert "'>x, y</td>" in html


def test_of_a_long_table_the_rest_is_counted() -> None:
    html = table_html(pd.DataFrame({"n": range(130)}))
    assert html.count("<td") == 100
    assert "and 30 more" in html


def test_a_table_of_nothing_says_so() -> None:
    assert table_html(pd.DataFrame([])) == "<p>nothing</p>"


def test_a_sentence_is_a_paragraph_and_lines_stay_lines() -> None:
    assert text_html("a < b") == "<p>a &lt; b</p>"
    assert text_html("a = 1\nb = 2") == "<pre>a = 1\nb = 2</pre>"
    assert str(Sentences("one")) == repr(Sentences("one")) == "one"
    assert Sentences("a < b")._repr_html_() == "<div>a &lt; b</div>"
    assert Sentences("b", "<b>b</b>")._repr_html_() == "<div><b>b</b></div>"


def test_cells_show_what_they_return_so(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    shell = InteractiveShell()
    monkeypatch.setattr(notebook_display, "get_ipython", lambda: shell)
    style_outputs()
    bundle, _ = shell.display_formatter.format(pd.DataFrame([{"n": 1}]))
    assert bundle["text/html"] == table_html(pd.DataFrame([{"n": 1}]))
    bundle, _ = shell.display_formatter.format("no loss is seeded")
    assert bundle["text/html"] == "<p>no loss is seeded</p>"


def test_an_answer_is_shown_without_a_traceback(capsys) -> None:  # type: ignore[no-untyped-def]
    shell = InteractiveShell()
    shell.run_cell("from mirror.drill.interactive import NotConfirmed\nraise NotConfirmed('west was not typed')")
    assert capsys.readouterr().out.strip() == "west was not typed"


def test_paths_and_keys_may_break_behind_what_joins_their_words_and_short_words_may_not() -> None:
    html = table_html(pd.DataFrame([{"key": "sync.group.offsets.enabled = -1.5, a->b"}]))
    assert "sync.<wbr>group.<wbr>offsets.<wbr>enabled = -1.5, a-&gt;b</td>" in html
