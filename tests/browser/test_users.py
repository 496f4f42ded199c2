"""Two people who sign in: each has a set, a comparison and a training, and the other cannot get at any of them."""

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from mrc_workbench.data.questions.read import read
from mrc_workbench.data.store import save_question_set
from mrc_workbench.data.workspace import acting_as, user_of
from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.conftest import new_context, running_app
from tests.browser.driving import MINUTES, wait_until_idle
from tests.identity_provider import Provider, running_provider, secrets_for
from tests.programs import free_port
from tests.raw_visitor import visiting

pytest.importorskip("authlib")
pytestmark = pytest.mark.browser
WORDS = catalog("en")
RUN = "20261122-014317-bi-0b1c"
PEOPLE = ("alice", "bob")
ATTEMPTS = (
    "/?data={data}&retrievers=BM25",
    "/data?data={data}",
    "/search?data={data}&columns=BM25&q=질문",
    "/train?data={data}&base={run}",
    "/?comparison={comparison}",
    "/?data={data}&comparison={comparison}&view=why",
    "/?comparison=../../{user}/comparisons/{comparison}",
    "/data?data=../../{user}/datasets/{data}",
    "/train?train=bi-encoder&base={run}",
    "/train?train=bi-encoder&base={folder}/runs/{run}",
    "/train?train=bi-encoder&base=../{user}/runs/{run}",
    "/train?train=bi-encoder&base=workspace/users/{user}/runs/{run}",
)


@dataclass
class Person:
    """A signed-in user in a separate browser session, with their data."""

    name: str
    page: Page
    folder: Path
    data: str = ""
    comparison: str = ""
    run: str = ""

    def open_page(self, address: str) -> None:
        self.page.goto(address)
        expect(self.page.get_by_test_id("stSidebarUserContent").get_by_text(self.name)).to_be_visible()
        wait_until_idle(self.page)

    def page_content(self, address: str) -> str:
        """Everything that the server sends to a page of this user, displayed or not."""
        app = self.page.evaluate("location.origin")
        return page_messages(app, address, sign_in_cookies(self.page.context.cookies()))

    def content_digest(self) -> str:
        """A digest of everything that is theirs, but for what can be made anew."""
        digest = hashlib.sha256()
        for subfolder in ("datasets", "comparisons", "runs"):
            for path in sorted(path for path in (self.folder / subfolder).rglob("*") if path.is_file()):
                digest.update(str(path.relative_to(self.folder)).encode() + path.read_bytes())
        return digest.hexdigest()


def sign_in_cookies(cookies: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The cookies by which the server recognises a user."""
    return {cookie["name"]: cookie["value"] for cookie in cookies if cookie["name"].startswith("_streamlit_user")}


def page_messages(app: str, address: str, cookies: dict[str, str] | None = None) -> str:
    """All that the server sends to a page that is opened at this address."""
    page, _, query = address.lstrip("/").partition("?")
    with visiting(app, cookies) as visitor:
        return visitor.draw(f"lang=en&{query}", page)


def rows(name: str, count: int) -> bytes:
    records = [
        {"question": f"{name} 질문 {number} 누구", "context": f"{name} 지문 {number} 나무", "title": f"{name} {number}"}
        for number in range(count)
    ]
    return json.dumps(records, ensure_ascii=False).encode()


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as server:
        yield server


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def app(workspace: Path, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app with sign-in and a stored set of passages: without questions, no comparison starts at the first visit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(workspace))
        with acting_as(""):
            lines = "\n".join(f"모두의 지문 {number} 나무" for number in range(12))
            save_question_set(read(lines.encode(), "everybody.txt").question_set, source="everybody.txt")
        patch.setenv("MRC_USER_PASSAGES", "50")
        patch.setenv("HF_TOKEN", "the operator's")
        patch.setenv("MRC_FORK_SERVER", "")  # a separate server, whose libraries have no token of the hub
        port = free_port()
        secrets = tmp_path_factory.mktemp("secrets") / "secrets.toml"
        secrets.write_text(secrets_for(provider, f"http://localhost:{port}"), encoding="utf-8")
        with running_app(workspace, port, "--secrets.files", secrets) as address:
            yield address


def sign_in(context: BrowserContext, app: str, provider: Provider, name: str, workspace: Path) -> Person:
    context.add_cookies([{"name": "person", "value": name, "url": provider.address}])
    page = context.new_page()
    page.set_default_timeout(3 * MINUTES)
    page.goto(app)
    page.get_by_role("button", name=WORDS["access.sign_in"]).click()
    expect(page.get_by_test_id("stSidebarUserContent").get_by_text(name)).to_be_visible()
    folder = workspace / "users" / user_of(provider.address, f"subject/../{name}")
    return Person(name, page, folder)


@pytest.fixture(scope="module")
def people(browser: Browser, app: str, provider: Provider, workspace: Path) -> Iterator[dict[str, Person]]:
    """Both signed in, each with a set, a comparison and a finished training."""
    people_by_name: dict[str, Person] = {}
    sessions = ExitStack()
    for name in PEOPLE:
        context = sessions.enter_context(new_context(browser, "en-US"))
        person = people_by_name[name] = sign_in(context, app, provider, name, workspace)
        person.open_page(f"{app}/data")
        file = {"name": f"{name}.json", "mimeType": "application/json", "buffer": rows(name, 15)}
        person.page.locator("input[type=file]").set_input_files(file)  # type: ignore[arg-type]
        person.page.get_by_role("button", name=WORDS["data_page.use"]).click()
        expect(person.page.get_by_test_id("stSidebarUserContent").get_by_text("15 passages")).to_be_visible()
        (person.data,) = (path.name for path in (person.folder / "datasets").iterdir() if not path.name.startswith("."))
        person.page_content(f"/?data={person.data}&retrievers=BM25")  # the page starts a comparison for any visitor
        person.run = f"{RUN}-{name}"
        source = Path(__file__).parents[1] / "workspace_before" / "runs" / RUN
        shutil.copytree(source, person.folder / "runs" / person.run)
        plan = person.folder / "runs" / person.run / "run.json"
        plan_content: dict[str, Any] = json.loads(plan.read_text(encoding="utf-8"))
        plan.write_text(json.dumps(plan_content | {"name": f"model of {name}"}), encoding="utf-8")
    for person in people_by_name.values():
        person.comparison = wait_for_comparison(person)
    with sessions:
        yield people_by_name


def wait_for_comparison(person: Person) -> str:
    """Wait for the one comparison; returns its name."""
    end = time.monotonic() + 180
    while not (score_files := [*(person.folder / "comparisons").glob("*/scores.json")]):
        assert time.monotonic() < end, "nothing is compared"
        time.sleep(0.1)
    (score_file,) = score_files
    return score_file.parent.name


def is_sign_in_page(content: str) -> bool:
    """Whether a door was all that was sent: no sidebar, and no set to choose."""
    inside = (WORDS["access.sign_out"], WORDS["sidebar.data"], "everybody")
    return WORDS["access.sign_in"] in content and not any(text in content for text in inside)


def test_requires_signing_in(app: str, workspace: Path) -> None:
    before = sorted(workspace.rglob("*"))
    for path in ("", "data", "train", "search", "compare", "?data=0123456789abcdef"):
        assert is_sign_in_page(page_messages(app, path)), path
    assert sorted(workspace.rglob("*")) == before


def test_a_cookie_that_the_server_did_not_sign_lets_nobody_in(app: str, people: dict[str, Person]) -> None:
    cookies = sign_in_cookies(people["alice"].page.context.cookies())
    name = "_streamlit_user"
    signed = cookies[name]
    assert WORDS["access.sign_out"] in page_messages(app, "", cookies)
    for value in (signed[:-8] + "AAAAAAAA", signed.rpartition(".")[0], "x" + signed[1:], '{"is_logged_in": true}'):
        assert is_sign_in_page(page_messages(app, "", cookies | {name: value})), value


def test_each_sees_their_own_and_what_is_shared(app: str, people: dict[str, Person], workspace: Path) -> None:
    assert not (people["alice"].folder / "datasets" / people["bob"].data).exists()
    assert not (workspace / "runs").exists()
    assert not (workspace / "comparisons").exists()
    for name, other_name in (("alice", "bob"), ("bob", "alice")):
        person = people[name]
        person.open_page(f"{app}/data?data={person.data}")
        main = person.page.get_by_role("main")
        main.get_by_text(WORDS["data_page.sets"].format(count=2)).click()
        expect(main.get_by_text("everybody", exact=True)).to_be_visible()
        expect(main.locator(".stMarkdownBadge", has_text=WORDS["data_page.shared"]).first).to_be_visible()
        expect(person.page.get_by_role("button", name=WORDS["data_page.remove"])).to_have_count(0)  # in use, or shared
        expect(main.get_by_text(other_name)).to_have_count(0)
        person.open_page(f"{app}/train?data={person.data}")
        expect(person.page.get_by_role("main").get_by_text(f"model of {name}").first).to_be_visible()
        expect(person.page.get_by_text(f"model of {other_name}")).to_have_count(0)


def without_requested(content: str, requested: str) -> str:
    """The sent content, without the part that the address itself contains."""
    return content.replace("\\", "").replace(requested, "")


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_rejects_addresses_of_other_users(people: dict[str, Person], attempt: str) -> None:
    alice = people["alice"]
    bob = people["bob"]
    before = alice.content_digest()
    theirs = {"data": alice.data, "comparison": alice.comparison, "run": alice.run, "folder": alice.folder}
    address = attempt.format(**theirs, user=alice.folder.name)
    response = bob.page_content(address)
    assert "bob" in response
    assert "alice" not in without_requested(response, alice.run)
    if "{user}" not in attempt and "{folder}" not in attempt:  # her page opens her own data
        # her name, and her set to choose
        assert without_requested(alice.page_content(address), alice.run).count("alice") > 2
    if "?comparison=" in attempt:
        assert WORDS["saved.not_here"] in response
    if "train?train=" in attempt:
        refusals = [WORDS[f"model.{key}"].split("{")[0] for key in ("server_path", "hub_unknown", "hub_unreachable")]
        refusals.append(WORDS["train.hub_asking"])  # the hub has not answered yet
        assert any(refusal in response for refusal in refusals)
        assert WORDS["train.about_folder"] not in response
    assert alice.content_digest() == before
    assert not list((bob.folder / "datasets").glob(alice.data))


def test_rejects_a_set_above_the_limit(app: str, people: dict[str, Person]) -> None:
    bob = people["bob"]
    before = bob.content_digest()
    bob.open_page(f"{app}/data")
    file = {"name": "large.json", "mimeType": "application/json", "buffer": rows("large", 51)}
    bob.page.locator("input[type=file]").set_input_files(file)  # type: ignore[arg-type]
    bob.page.get_by_role("button", name=WORDS["data_page.use"]).click()
    expect(bob.page.get_by_text(WORDS["limit.passages"].format(passages="51", limit="50"))).to_be_visible()
    assert bob.content_digest() == before


def test_fragment_saves_for_the_signed_in_user(app: str, people: dict[str, Person], workspace: Path) -> None:
    """Questions are generated in a fragment, which Streamlit runs without `workbench/frame.py` in another thread."""
    bob = people["bob"]
    shared, own = (sorted((root / "datasets").iterdir()) for root in (workspace, bob.folder))
    before = people["alice"].content_digest()
    bob.open_page(f"{app}/data?data={bob.data}")
    bob.page.get_by_role("tab", name=WORDS["data_page.look_make"]).click()
    bob.page.get_by_role("radio", name=WORDS["made.by_title"]).click()
    wait_until_idle(bob.page)
    bob.page.get_by_role("button", name=WORDS["made.make"], exact=True).click()
    expect(bob.page.get_by_role("button", name=WORDS["made.train"])).to_be_visible()
    assert sorted((workspace / "datasets").iterdir()) == shared
    assert len(sorted((bob.folder / "datasets").iterdir())) == len(own) + 1
    assert people["alice"].content_digest() == before


def test_signing_out_ends_access(app: str, page: Page, provider: Provider, workspace: Path) -> None:
    context = page.context
    carol = sign_in(context, app, provider, "carol", workspace)
    wait_until_idle(carol.page)
    copied = context.cookies(app)
    other = context.new_page()
    other.goto(f"{app}/search")
    expect(other.get_by_test_id("stSidebarUserContent").get_by_text("carol")).to_be_visible()
    wait_until_idle(other)
    with carol.page.expect_response("**/auth/logout"):  # which takes the cookie away; the page is drawn before that
        carol.page.get_by_role("button", name=WORDS["access.sign_out"]).click()
    expect(carol.page.get_by_role("button", name=WORDS["access.sign_in"])).to_be_visible()
    carol.page.goto(f"{app}/data")
    expect(carol.page.get_by_role("button", name=WORDS["access.sign_in"])).to_be_visible()
    expect(carol.page.get_by_test_id("stSidebar")).to_have_count(0)
    other.get_by_role("link", name=WORDS["page.data"]).first.click()  # a page that was open before
    expect(other.get_by_role("button", name=WORDS["access.sign_in"])).to_be_visible()
    assert is_sign_in_page(page_messages(app, "data", sign_in_cookies(copied)))
