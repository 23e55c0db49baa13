"""Who asks again within a second gets the page that was made already, if it is the same page."""

from types import SimpleNamespace

from starlette.responses import HTMLResponse

from tidegate.service.web.pages import MOST, Pages


def asked(query="", session="s", who="w"):
    return SimpleNamespace(url=SimpleNamespace(path="/", query=query), scope={"who": who, "session": session})


def test_a_page_is_made_once_for_what_the_registry_said_last():
    pages, lines, made = Pages(), (), []

    def make():
        made.append(1)
        return HTMLResponse(f"page {len(made)}")

    bodies = [pages.answer(asked(), lines, make).body for _ in range(3)]
    assert bodies == [b"page 1"] * 3
    assert pages.answer(asked("page=2"), lines, make).body == b"page 2"
    assert pages.answer(asked(session="other"), lines, make).body == b"page 3", "forms are bound to their session"
    assert pages.answer(asked(who="other"), lines, make).body == b"page 4"
    assert pages.answer(asked(), ("new",), make).body == b"page 5"
    for number in range(3 * MOST):
        pages.answer(asked(f"search={number}"), lines, make)
    assert len(pages._made) <= MOST
