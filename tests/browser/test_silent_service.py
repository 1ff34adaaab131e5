"""Silent services, late modules and concurrent changes do not mislead the user of a page."""

from __future__ import annotations

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenPage, Serve
from tests.fakes.site import Site

HANGING = {
    "no response": """new Promise((_, failed) =>
        signal.addEventListener('abort', () => failed(signal.reason)))""",
    "no body": """Promise.resolve(new Response(new ReadableStream({
        start: (body) => signal.addEventListener('abort', () => body.error(signal.reason)) })))""",
}
"""What fetch returns while an instance is frozen."""


def page_at(serve: Serve, open_page: OpenPage, path: str) -> Page:
    return open_page(f"{serve(Site().app)}/ui/{path}")


def test_a_call_without_a_response_fails_in_time(serve: Serve, open_page: OpenPage) -> None:
    page = page_at(serve, open_page, "icon.svg")
    for label, answer in HANGING.items():
        found = page.evaluate(
            f"""async () => {{
                window.fetch = (_, {{ signal }}) => {answer};
                const {{ ask }} = await import("/ui/lib/api.js");
                const call = {{ path: "/v1/caller" }};
                return ask(call, undefined, 50).catch((error) => [error.status, error.message]);
            }}"""
        )
        assert found == [0, "this instance does not respond"], label


def test_a_call_of_a_page_that_was_left_is_aborted_and_not_a_failure(
    serve: Serve, open_page: OpenPage
) -> None:
    page = page_at(serve, open_page, "icon.svg")
    name = page.evaluate(
        f"""async () => {{
            window.fetch = (_, {{ signal }}) => {HANGING["no response"]};
            const {{ ask }} = await import("/ui/lib/api.js");
            const leaving = new AbortController();
            setTimeout(() => leaving.abort(), 10);
            return ask({{ path: "/v1/caller" }}, leaving.signal).catch((error) => error.name);
        }}"""
    )
    assert name == "AbortError"


def test_a_stream_without_heartbeats_is_not_live(serve: Serve, open_page: OpenPage) -> None:
    page = page_at(serve, open_page, "icon.svg")
    for label, answer in HANGING.items():
        found = page.evaluate(
            f"""async () => {{
                window.fetch = (_, {{ signal }}) => {answer};
                const {{ listen }} = await import("/ui/lib/live.js");
                const states = [];
                return new Promise((done) => {{
                    const stop = listen(() => {{}}, (isOpen) => {{
                        states.push(isOpen);
                        if (!isOpen) {{ stop(); done(states); }}
                    }}, 50);
                }});
            }}"""
        )
        assert found == ([False] if label == "no response" else [True, False]), label


def test_a_page_that_loads_late_does_not_replace_the_page_that_was_chosen_after_it(
    serve: Serve, open_page: OpenPage
) -> None:
    page = page_at(serve, open_page, "#/advice")
    expect(page.get_by_role("heading", name="Advice", level=1)).to_be_visible()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/ui/pages/usage.js", hold)
    with page.expect_request("**/ui/pages/usage.js"):
        page.evaluate("location.hash = '#/usage'")
    page.evaluate("location.hash = '#/instances'")
    expect(page.get_by_role("heading", name="Instances", level=1)).to_be_visible()
    with page.expect_response("**/ui/pages/usage.js"):
        held[0].continue_()
    page.evaluate("import('/ui/pages/usage.js').then(() => new Promise((done) => setTimeout(done)))")
    expect(page.get_by_role("heading", name="Instances", level=1)).to_be_visible()
    expect(page).to_have_title("Instances · Headrace")


def test_a_form_keeps_its_text_when_the_definition_changes(serve: Serve, open_page: OpenPage) -> None:
    site = Site()
    site.create()
    page = open_page(f"{serve(site.app)}/ui/#/edit/orders")
    owner = page.get_by_label("Owner")
    owner.fill("typed")
    status = page.evaluate(
        """() => fetch("/v1/datastreams/orders", {
            method: "PATCH", body: '{"limits": {"max_tasks": 7}}',
            headers: { "If-Match": "*", "Content-Type": "application/merge-patch+json" },
        }).then((answer) => answer.status)"""
    )
    assert status == 200
    page.evaluate("import('/ui/lib/parts.js').then((one) => one.announce())")
    expect(page.get_by_text("was changed after this form was opened")).to_be_visible()
    expect(owner).to_have_value("typed")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("was modified concurrently")).to_be_visible()
