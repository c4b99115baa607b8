"""Where is it? in a real browser: by mouse, touch and keys alone, to the pixel, and nothing lost on the way."""

import pytest

from strobe.annexes.web.review.store import Store

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHONE = {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 3, "has_touch": True, "is_mobile": True}
SHARP = {"viewport": {"width": 1100, "height": 700}, "device_scale_factor": 1.5}


class Hand:
    """Draws on the pad as people do, in pixels of the image."""

    def __init__(self, visitor):
        self.visitor, self.page = visitor, visitor.page
        self.touches = visitor.context.new_cdp_session(visitor.page)

    def at(self, x, y):
        """Where a point of the image lies on the screen."""
        return self.page.evaluate(
            """async ([x, y]) => {
            // Where the room has changed, the image is placed anew in the next frame.
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const image = document.querySelector("#pad img"), box = image.getBoundingClientRect();
            const scale = box.width / image.naturalWidth; return [box.left + x * scale, box.top + y * scale]; }""",
            [x, y],
        )

    @property
    def scale(self):
        """Screen pixels for one of the image."""
        return self.at(1, 0)[0] - self.at(0, 0)[0]

    def drag(self, *points, button="left"):
        """With the mouse, through these points of the image."""
        places = [self.at(*point) for point in points]
        self.page.mouse.move(*places[0])
        self.page.mouse.down(button=button)
        for place in places[1:]:
            self.page.mouse.move(*place, steps=3)
        self.page.mouse.up(button=button)

    def finger(self, *points):
        """With one finger, through these points of the image."""
        places = [self.at(*point) for point in points]
        self.touch("touchStart", places[0])
        for place in places[1:]:
            self.touch("touchMove", place)
        self.touch("touchEnd")

    def touch(self, kind, *places):
        """One touch event with these fingers down."""
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
        self.touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    @property
    def numbers(self):
        """What the page says of the box."""
        return self.page.inner_text("#pad-numbers")

    def keys(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)


def says(box):
    x0, y0, x1, y1 = box
    return f"{x1 - x0} × {y1 - y0} pixels at {x0}, {y0},"


def boxes(server, who):
    return [(word.stage, word.decision, word.xyxy) for word in server.store.all() if word.annotator == who]


def test_two_people_by_mouse_and_by_finger_and_a_second_look_where_they_differ(small, run_server, visit):
    server = run_server(small, ask="box", votes=2)
    ann, bo = visit(server.url, "Ann", **SHARP), visit(server.url, "Bo", **PHONE)
    mouse, finger = Hand(ann), Hand(bo)
    ann.shown(), bo.shown()
    drawn = [(61, 37, 189, 143), (20, 11, 130, 97), (100, 60, 300, 199)]
    for x0, y0, x1, y1 in drawn:
        mouse.drag((x0, y0), (x1, y1))
        assert mouse.numbers.startswith(says((x0, y0, x1, y1)))
        before = ann.card
        ann.page.click("[data-action=keep]")
        ann.shown(after=before)
    ann.saved()
    assert boxes(server, "Ann") == [("draw", "keep", box) for box in drawn]
    # Bo's first is from the far corner to the near one, his second elsewhere, his third no box at all.
    near, far = (63, 37, 190, 144), (200, 100, 310, 190)
    of_picture = {word.frame_id: word.xyxy for word in server.store.all()}
    wanted = {drawn[0]: near, drawn[1]: far, drawn[2]: None}
    order = []
    for _ in range(3):
        task = bo.card.split("-")[0]
        box = wanted[of_picture[server.store.task(task).frame_id]]
        order.append(box)
        before = bo.card
        if box is None:
            bo.page.tap("[data-action=several]")
        else:
            x0, y0, x1, y1 = box
            finger.finger((x1, y1), ((x0 + x1) / 2, (y0 + y1) / 2), (x0, y0))
            assert finger.numbers.startswith(says(box))
            bo.page.tap("[data-action=keep]")
        bo.shown(after=before)
    bo.saved()
    assert boxes(server, "Bo")[:3] == [("draw", "keep" if box else "discard", box) for box in order]
    assert [word.reason for word in server.store.all() if word.decision == "discard"] == ["several"]
    # What differs comes again, to both, with one's own box to start from: Ann moves hers, Bo draws his anew.
    for visitor, hand in ((ann, mouse), (bo, finger)):
        visitor.page.reload()
        visitor.ready()
        for _ in range(2):
            visitor.shown()
            assert visitor.page.inner_text("#question").startswith("Second look")
            if visitor is bo:
                hand.finger((20, 11), (50, 50), (130, 97))
            before = visitor.card
            bo.page.tap("[data-action=keep]") if visitor is bo else hand.keys("Enter")
            visitor.shown(after=before)
        visitor.saved()
    assert boxes(server, "Bo")[3:] == [("verify", "keep", (20, 11, 130, 97))] * 2
    assert sorted(boxes(server, "Ann")[3:]) == sorted(("verify", "keep", box) for box in drawn[1:])
    ids = [word.answer_id for word in server.store.all()]
    assert len(ids) == len(set(ids)) == 10
    summary = server.store.question.summarise(small, list(server.store.all()), server.store.conduct())
    assert summary["table"] == {"pictures": 3, "answered": 3, "kept": 3, "discarded": 0}
    assert summary["waiting"]["round_two"]["pictures"] == 0


def test_by_keys_alone_to_the_pixel_with_undo_and_a_reload(small, run_server, visit):
    server = run_server(small, ask="box")
    ann = visit(server.url, "Ann")
    hand = Hand(ann)
    ann.shown()
    hand.keys("Enter")
    assert "no box yet" in ann.page.inner_text("#alert"), "there is nothing to keep"
    hand.keys("ArrowRight")
    assert hand.numbers.startswith(says((80, 50, 240, 150))), "a first box in the middle"
    for _ in range(60):  # held down, it gets faster, stops at the edge, and is one step back
        ann.page.keyboard.down("ArrowRight")
    ann.page.keyboard.up("ArrowRight")
    assert hand.numbers.startswith(says((160, 50, 320, 150)))
    hand.keys("u")
    assert hand.numbers.startswith(says((80, 50, 240, 150)))
    hand.keys(*["ArrowLeft"] * 3, *["ArrowUp"] * 2, *["Shift+ArrowLeft"] * 5, "Shift+ArrowDown", "r", "ArrowDown", "r")
    assert hand.numbers.startswith(says((77, 48, 232, 150)))
    hand.keys("u")
    assert hand.numbers.startswith(says((77, 48, 232, 149))), "one change taken back"
    first = ann.card
    ann.decide("Enter")
    ann.saved().page.reload()
    ann.ready().shown()
    second = ann.card
    assert second != first
    ann.decide("3")
    hand.keys("z", "z")
    ann.await_page(f'body[data-shown="{first}"]')
    assert "a box of 155 × 101 at 77, 48" in ann.page.inner_text("#past")
    assert hand.numbers.startswith(says((77, 48, 232, 149)))
    hand.keys("ArrowRight")
    ann.decide("Enter")
    ann.saved()
    assert boxes(server, "Ann") == [
        ("draw", "keep", (77, 48, 232, 149)), ("draw", "discard", None), ("draw", "keep", (78, 48, 233, 149)),
    ]  # fmt: skip
    assert [word.reason for word in server.store.all()] == ["", "whole", ""]
    assert len({word.frame_id for word in server.store.all()}) == 2


def test_handles_moving_and_zoom_keep_to_the_pixel(small, run_server, visit):
    server = run_server(small, ask="box")
    ann = visit(server.url, "Ann", **SHARP)
    hand = Hand(ann)
    ann.shown()
    hand.drag((50, 40), (150, 120))
    hand.drag((50, 40), (57, 33))  # the near corner
    hand.drag((150, 76.5), (163, 90))  # the right side: up and down means nothing to it
    hand.drag((100, 80), (110, 85))  # the box itself
    assert hand.numbers.startswith(says((67, 38, 173, 125)))
    before = hand.scale
    hand.page.mouse.move(*hand.at(173, 125))
    for _ in range(12):
        hand.page.mouse.wheel(0, -240)
    ann.until(lambda: hand.scale == pytest.approx(48))  # as near as it goes
    assert hand.scale > 10 * before
    hand.drag((173, 125), (174, 123))
    assert hand.numbers.startswith(says((67, 38, 174, 123)))
    hand.drag((173, 122), (170, 121), button="middle")
    assert hand.numbers.startswith(says((67, 38, 174, 123))), "the middle button moves the view"
    hand.keys("0")
    assert hand.scale == pytest.approx(before)
    hand.drag((10, 10), (10.2, 10.2))
    assert hand.numbers.startswith(says((67, 38, 174, 123))), "a click is no box"
    hand.keys("b")
    assert hand.scale > before
    hand.keys("Delete")
    assert hand.numbers == "No box yet"
    hand.keys("u")
    ann.decide("Enter")
    ann.saved()
    assert boxes(server, "Ann") == [("draw", "keep", (67, 38, 174, 123))]


def test_two_fingers_zoom_and_never_draw(small, run_server, visit):
    server = run_server(small, ask="box")
    bo = visit(server.url, "Bo", **PHONE)
    hand = Hand(bo)
    bo.shown()
    hand.finger((50, 40), (100, 80), (150, 120))
    before = hand.scale
    one, other = hand.at(200, 60), hand.at(250, 150)
    hand.touch("touchStart", one)
    hand.touch("touchMove", (one[0] + 15, one[1] + 15))
    hand.touch("touchStart", (one[0] + 15, one[1] + 15), other)
    hand.touch("touchMove", (one[0] - 60, one[1] - 60), (other[0] + 40, other[1] + 40))
    hand.touch("touchEnd")
    bo.until(lambda: hand.scale > 1.5 * before)
    assert hand.numbers.startswith(says((50, 40, 150, 120)))
    bo.page.tap("#tools [data-action=right]")
    bo.page.tap("#sizing-button")
    bo.page.tap("#tools [data-action=up]")
    bo.until(lambda: hand.numbers.startswith(says((51, 40, 151, 119))))
    before = bo.card
    bo.page.tap("[data-action=keep]")
    bo.shown(after=before)
    bo.saved()
    assert boxes(server, "Bo") == [("draw", "keep", (51, 40, 151, 119))]


def test_a_suggestion_is_taken_with_enter_or_moved(small, run_server, visit):
    frames = [small.frame_ids()[row] for row in small.sets.anchor_frame.tolist()]
    server = run_server(small, ask="box", suggestions=dict.fromkeys(frames, (30, 20, 200, 180)))
    ann = visit(server.url, "Ann")
    hand = Hand(ann)
    ann.shown()
    assert hand.numbers.startswith("Suggested: 170 × 160")
    assert "Keep suggested box" in ann.page.inner_text("[data-action=keep]")
    ann.decide("Enter")
    hand.keys("ArrowLeft")
    assert "Keep this box" in ann.page.inner_text("[data-action=keep]")
    ann.decide("Enter")
    hand.drag((250, 10), (300, 90))
    ann.decide("Enter")
    ann.saved()
    words = list(server.store.all())
    assert [word.suggested for word in words] == [True, False, False]
    assert [word.xyxy for word in words] == [(30, 20, 200, 180), (29, 20, 199, 180), (250, 10, 300, 90)]


def test_geometry_never_leaves_the_picture(small, run_server, visit):
    """Thousands of random drags, pulls and nudges on the page's own functions."""
    server = run_server(small, ask="box")
    ann = visit(server.url, "Ann")
    wrong = ann.page.evaluate(
        """async () => {
        const { SIDES, View, between, grabbed, moved, pulled, resized } = await import("/static/box_geometry.js");
        let state = 7;
        const random = (most) => ((state = (state * 48271) % 2147483647) / 2147483647) * most;
        const wrong = [];
        for (let turn = 0; turn < 4000; turn += 1) {
          const size = [1 + Math.floor(random(40)), 1 + Math.floor(random(40))];
          const point = () => [random(60) - 10, random(60) - 10];
          const boxes = [between(point(), point(), size)];
          for (let more = 0; more < 6; more += 1) {
            const [dx, dy] = [Math.floor(random(30)) - 15, Math.floor(random(30)) - 15];
            const handle = Object.keys(SIDES)[Math.floor(random(8))];
            const box = boxes.at(-1);
            const ways = [moved(box, dx, dy, size), resized(box, dx, dy, size), pulled(box, handle, point(), size)];
            boxes.push(ways[turn % 3]);
          }
          const fits = ([x0, y0, x1, y1]) => x0 >= 0 && y0 >= 0 && x0 < x1 && y0 < y1 && x1 <= size[0] && y1 <= size[1];
          for (const box of boxes) if (!fits(box) || !box.every(Number.isInteger)) wrong.push([size, box]);
          const view = new View();
          view.place(size, [50 + random(900), 50 + random(900)]);
          view.zoomAt(1 + random(20), [random(100), random(100)]);
          const there = point();
          const back = view.toPicture(view.toScreen(there));
          if (Math.hypot(back[0] - there[0], back[1] - there[1]) > 1e-9) wrong.push(["view", there, back]);
          const [x0, y0, x1, y1] = boxes[0];
          if (grabbed(boxes[0], [(x0 + x1) / 2, (y0 + y1) / 2], 5) !== "inside") wrong.push(["middle", boxes[0]]);
        }
        return wrong.slice(0, 5);
    }"""
    )
    assert wrong == []


def test_server_killed_while_boxes_are_on_their_way(helpers, tmp_path, visit, started):
    root = tmp_path / "killed"
    helpers.make_dataset(root, n_sets=8, k=1)
    server = helpers.Process(started, root, "--ask", "box")
    visitors = [visit(server.url, "Ann"), visit(server.url, "Bo", **PHONE)]
    made = {}
    for visitor in visitors:
        made[visitor] = []
        visitor.page.on(
            "request", lambda one, to=made[visitor]: to.append(one.post_data_json) if "/decisions" in one.url else None
        )
        visitor.shown()

    steps = iter(range(1, 20))

    def box_one(visitor):
        Hand(visitor).keys(*["ArrowRight"] * next(steps), "Shift+ArrowUp")
        visitor.decide("Enter")

    for visitor in visitors:
        visitor.quiet()
        box_one(visitor)
    server.kill()  # -9
    for visitor in (*visitors, visitors[0]):
        box_one(visitor)
        visitor.await_page("#saved.offline")
    server = helpers.Process(started, root, "--ask", "box", port=server.port)
    try:
        helpers.finish(*visitors, act=box_one)
    finally:
        server.kill()
    store = Store(f"sqlite:///{root / 'review.sqlite'}", ask="box")
    words = list(store.all())
    store.close()
    assert len({word.frame_id for word in words}) == len(words) == 8, "every image once"
    for visitor, name in zip(visitors, ("Ann", "Bo"), strict=True):
        sent = {one["answer_id"]: one["xyxy"] for one in made[visitor]}
        assert {w.answer_id: list(w.xyxy) for w in words if w.annotator == name} == sent, "stored is what was made"
