"""The viewer in a real browser: the address holds the state, the keyboard is enough, and it is accessible."""

import pytest
from made_world import answers, make_dataset, make_run

pytestmark = pytest.mark.browser

READY = "() => document.body.dataset.state === 'ready'"


class Window:
    """A browser window of one person; a page that threw an error fails its test."""

    def __init__(self, chromium, link, **context):
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 860}, **context})
        self.context.set_default_timeout(30_000)
        self.errors = []
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if "Content Security" in m.text else None)
        self.url = link.split("/#")[0]
        self.page.goto(link)
        self.ready()

    def ready(self):
        self.page.wait_for_function(READY)

    def open(self, query):
        self.page.goto(f"{self.url}/?{query}")
        self.ready()
        return self.page


@pytest.fixture
def window(chromium, world, view_server):
    made = []

    def come(name="Ann", **context):
        server = view_server(world)
        made.append(Window(chromium, server.link(name), **context))
        made[-1].server = server
        return made[-1]

    yield come
    for one in made:
        one.context.close()
        assert one.errors == []


def test_a_filter_a_link_and_a_set(window):
    ann = window()
    page = ann.open("page=sets")
    page.get_by_role("heading", name="24 sets").wait_for()
    counts = ann.server.library.index(ann.server.data).models["net:1"].counts()
    assert "key=" not in page.url, "the key does not stay in the address"
    page.get_by_role("button", name=f"net:1: flickers: right, then wrong, {counts['breaks']} sets").click()
    page.get_by_role("heading", name=f"{counts['breaks']} of 24 sets").wait_for()
    assert "m=net%3A1%3Abreaks" in page.url
    page.reload()
    page.get_by_role("heading", name=f"{counts['breaks']} of 24 sets").wait_for()
    assert page.locator(".cell").count() == counts["breaks"]
    page.locator(".cell").first.click()
    page.wait_for_selector("#stage img")
    page.get_by_text(f"1 of {counts['breaks']}", exact=True).wait_for()
    assert page.locator(".matrix tbody tr").count() == 3
    assert page.locator(".matrix td.breaks").count() > 0
    page.locator("#timeline .track").first.wait_for()
    assert page.get_by_text("<b>fox</b>").count() or page.get_by_text("cat").count(), "names are text, not HTML"
    page.keyboard.press("n")
    page.get_by_text(f"2 of {counts['breaks']}", exact=True).wait_for()
    page.keyboard.press("Escape")
    page.wait_for_selector("#grid .cell")
    assert page.locator("b", has_text="fox").count() == 0


def test_the_keyboard_alone(window):
    page = window().page
    page.keyboard.press("2")
    page.wait_for_selector("#grid .cell")
    page.keyboard.press("/")
    page.keyboard.type("clip3")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="3 of 24 sets").wait_for()
    page.locator("#grid .cell[tabindex='0']").focus()
    first = page.evaluate("() => document.activeElement.dataset.row")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("(first) => document.activeElement.dataset.row !== first", arg=first)
    page.keyboard.press("Enter")
    page.wait_for_selector("#stage img")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("t")
    page.keyboard.type("odd one")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="odd one").wait_for()
    page.keyboard.press("1")
    page.wait_for_selector("table tbody tr")


def test_models_are_compared_and_the_changed_sets_opened(window):
    ann = window()
    page = ann.page
    for model in ("net:0", "net:2"):
        page.get_by_label(f"Compare {model} of run").check()
    page.get_by_role("button", name="Compare 2").click()
    page.get_by_text("accuracy on whole sets (pm-k)").first.wait_for()
    changed = page.locator(".links a").first
    n = int(changed.inner_text().split()[0])
    changed.click()
    page.get_by_role("heading", name=f"{n} of 24 sets").wait_for()
    page.locator(".cell").first.click()
    page.wait_for_selector("#stage.pair .shot:nth-child(2) img")


def test_a_guest_sees_everything_and_writes_nothing(window):
    page = window("Guest").open("page=sets")
    page.wait_for_selector("#grid .cell")
    page.get_by_text("Do", exact=True).click()
    assert page.get_by_text("Videos for --subset").is_visible()
    assert page.get_by_text("Tag all").count() == 0
    page.locator(".cell").first.click()
    page.wait_for_selector("#stage img")
    assert page.locator("#add-tag, #note").count() == 0


def test_without_a_link_there_is_nothing_to_see(chromium, world, view_server):
    server = view_server(world)
    context = chromium.new_context()
    page = context.new_page()
    page.goto(server.url)
    page.get_by_role("heading", name="Open your link").wait_for()
    page.goto(f"{server.url}/#key=wrong")
    page.reload()
    page.get_by_text("This link does not work").wait_for()
    context.close()


@pytest.mark.parametrize("context", [{"viewport": {"width": 390, "height": 844}}, {"color_scheme": "dark"}])
def test_axe_finds_nothing_serious(window, axe, context):
    ann = window(**context)
    data = ann.server.data
    for query in (
        "page=runs",
        "page=sets",
        f"page=set&data={data}&row=4",
        "page=videos",
        f"page=video&data={data}&vrow=1",
    ):
        page = ann.open(query)
        page.wait_for_load_state("networkidle")
        assert axe(page) == [], query
        wide = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{query} scrolls sideways"


def test_many_models_without_images_stay_readable(chromium, tmp_path, view_server, axe):
    dataset = make_dataset(tmp_path / "data", images=False)
    make_run(tmp_path / "run", tmp_path / "data", answers(dataset, 16))
    ann = Window(chromium, view_server(tmp_path).link())
    page = ann.open("page=sets&m=net:1:breaks")
    page.wait_for_selector("#grid .cell")
    page.get_by_role("button", name="net:1: flickers remove this filter").wait_for()
    assert page.locator("#grid .shot").count() == 0, "no empty boxes"
    signs = page.locator("#grid .cell").first.locator(".marks i").all_inner_texts()
    assert sum(int(one.split()[-1]) for one in signs) == 16, "every model is counted"
    assert page.locator(".model").count() == 8
    page.get_by_role("button", name="8 more models").click()
    page.locator(".model").nth(15).wait_for()
    assert axe(page) == []
    page.locator(".cell").first.click()
    page.wait_for_selector(".chart.many")
    page = ann.open("page=videos")
    page.get_by_text("12 of 16 models are shown.").wait_for()
    ann.context.close()
    assert ann.errors == []
