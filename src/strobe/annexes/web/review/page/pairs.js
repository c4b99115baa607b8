// Do these two look the same? A card shows an anchor and a neighbour, or only an anchor in the label stage.

import { $, element, post } from "./api.js";
import { Drop } from "./drop.js";
import { Feedback } from "./feedback.js";
import { suggestAfter, suggestBefore } from "./hints.js";
import { JointPanel, describe } from "./joint.js";
import { LabelPanel } from "./labels.js";
import { keep, kept } from "./storage.js";
import { Strip, describeSet } from "./strip.js";
import { Viewer } from "./viewer.js";

const REASONS = ["motion", "background", "blur", "occlusion", "deformation", "other"];
const MOVE = { "member-next": (strip) => strip.step(1), "member-before": (strip) => strip.step(-1) };
const ARROWS = { right: MOVE["member-next"], left: MOVE["member-before"], up: (strip) => strip.end(0), down: (strip) => strip.end(-1) };
const PAN = { left: [0.12, 0], right: [-0.12, 0], up: [0, 0.12], down: [0, -0.12] };

export default class Pairs {
  static keys = {
    similar: ["s", "Similar"],
    motion: ["1", "Dissimilar: motion"],
    background: ["2", "Dissimilar: background"],
    blur: ["3", "Dissimilar: blur"],
    occlusion: ["4", "Dissimilar: occlusion"],
    deformation: ["5", "Dissimilar: deformation"],
    other: ["6", "Dissimilar: other reason"],
    unsure: ["u", "Unsure"],
    wrong: ["w", "Label is wrong"],
    bad: ["b", "Bad anchor"],
    note: ["n", "Write a note"],
    undo: ["z", "Undo: back to the previous decision"],
    forward: ["y", "Keep and continue"],
    view: ["v", "Side by side or in place"],
    flip: [" ", "Flip between anchor and neighbour"],
    auto: ["f", "Alternate automatically"],
    diff: ["x", "Pixel difference"],
    "zoom-in": ["+", "Zoom in"],
    "zoom-out": ["-", "Zoom out"],
    "zoom-reset": ["0", "Fit"],
    left: ["ArrowLeft", "Previous image of a set; when zoomed in: move the view left"],
    right: ["ArrowRight", "Next image; when zoomed in: move the view right"],
    up: ["ArrowUp", "First image; when zoomed in: move the view up"],
    down: ["ArrowDown", "Last image; when zoomed in: move the view down"],
    search: ["/", "Search for a class (label stage)"],
    "member-next": ["]", "Next image of a set; in a group: next member"],
    "member-before": ["[", "Previous image of a set; in a group: previous member"],
    save: ["Enter", "Save a set, all unmarked images as similar; in a group: save all votes"],
    help: ["?", "This list"],
  };

  static touch = [
    "Tap an answer. The next pair appears at once.",
    "Pinch to zoom both frames together. Drag to move them.",
    "“Flicker in place” shows both frames in the same place. Tap the image to flip.",
    "Undo goes back to your last decision. Tap your name to see all your decisions.",
  ];

  many = "pairs";
  id = "verdict_id";

  // `host` is the page, which all questions share.
  constructor(host) {
    this.host = host;
    this.viewer = new Viewer();
    this.labels = new LabelPanel();
    this.joint = null;
    this.strip = new Strip((member) => this.look(member, this.strip.said(member)));
    this.feedback = new Feedback(() => this.host.next());
    this.wrong = false;
    this.dropped = new Set(); // anchors marked bad on this page; a claim may still list their pairs
    this.drop = new Drop(host, () => this.decide({ decision: "dissimilar", bad_anchor: true }));
  }

  async enter(session) {
    this.labels.classes = session.classes;
    [this.hints, this.examples] = [session.hints, session.examples];
    this.ahead = session.at_once === "set" ? 3 : 6;
    this.practised = `strobe:${session.store}:practised:${session.person.name}`;
    const names = JointPanel.asked();
    if (this.joint || !names.length || !session.is_admin) return;
    const joint = new JointPanel((vote) => this.turn(vote));
    if (await joint.start(names)) this.joint = joint;
    else this.host.say("None of these people takes part in this review.");
  }

  // Another person logged in. Nothing of the previous person may be used.
  forget() {
    this.dropped = new Set();
    $("suggested").hidden = true;
  }

  // Examples that this person has not practised on yet. Answers to them are not votes.
  practice() {
    return this.joint ? [] : this.examples.slice(Number(kept(this.practised) || 0));
  }

  // A group has its own claims and its own history of decisions.
  get past() {
    return this.joint?.past;
  }

  claim(want) {
    return this.joint && post("/api/joint/claim", { members: this.joint.members, want });
  }

  pictures(card) {
    if (card.members) return [card.anchor, ...card.members.map((one) => one.neighbour)];
    return card.neighbour ? [card.anchor, card.neighbour] : [card.anchor];
  }

  isWanted(card) {
    return card.stage !== "pair" || !this.dropped.has(card.anchor);
  }

  // -- one card -----------------------------------------------------------------------------------------------------

  // `step` is the earlier decision, if the person went back to this card.
  show(card, step) {
    this.strip.leave();
    this.feedback.hide();
    if (!card.members) return this.look(card, step?.decision, step);
    const all = this.strip.show(card, step?.decision.votes, this.host.session.person.name);
    this.look(this.strip.member, this.strip.said());
    return all;
  }

  look(card, earlier, step) {
    this.wrong = earlier?.label_right === false;
    this.draw(card, earlier);
    if (card.stage === "anchor") this.labels.show(earlier?.labels?.length ? earlier.labels : card.labels.map((label) => label.id));
    if (this.joint) this.joint.show(step?.votes || []);
    this.showWrong();
    return this.viewer.show(card, this.pictures(card));
  }

  said(step) {
    if (this.joint) return "The group decided this pair. Change votes and save them all again, or keep them.";
    return `Your decision: ${this.brief(step)}. ${step.card.members ? "Change it and save it, or keep it." : "Decide again or keep it."}`;
  }

  brief(step) {
    if (this.joint) return "decided together";
    return step.card.members ? describeSet(step.decision) : describe(step.decision);
  }

  unreadable = "An image cannot be read. Choose “unsure” for it and add a note.";

  draw(card, earlier) {
    const anchorStage = card.stage === "anchor";
    $("review").className = anchorStage ? "anchor-stage" : this.strip.isOn ? "pair set" : card.stage;
    $("question").textContent = this.ask(card);
    $("hint").textContent = anchorStage
      ? "Add missing classes and remove wrong ones."
      : "If something distinctive is visible in one frame only, choose dissimilar.";
    if (this.hints === "before") suggestBefore(card);
    const text = (list) => list.map((label) => label.name).join(", ") || "no label";
    const [a, b] = document.querySelectorAll("#panes .labels");
    a.textContent = text(card.labels);
    b.textContent = text(card.neighbour_labels);
    $("note").value = earlier?.note || "";
    $("label-panel").hidden = !anchorStage;
    $("joint-panel").hidden = $("joint-save").hidden = !this.joint;
    $("reasons").hidden = $("wrong-button").hidden = anchorStage;
    document.querySelector("[data-action=similar]").firstChild.textContent = anchorStage ? "Good anchor" : "Similar";
    const mark = earlier && !earlier.bad_anchor && (earlier.reason || earlier.decision);
    for (const button of document.querySelectorAll("#decide button")) button.classList.toggle("said", button.dataset.action === mark);
    this.drawVotes(card.votes);
  }

  ask(card) {
    if (card.stage === "anchor") return "Which of these classes are in the image?";
    if (this.joint) return "Together: do these two look the same?";
    if (this.strip.isOn) return "Which images do not look like the anchor?";
    if (card.stage === "practice") return `Practice ${Number(card.task.slice(8)) + 1} of ${this.examples.length}: do these two look the same?`;
    return card.stage === "verify" ? "Second look: do these two look the same?" : "Do these two look the same?";
  }

  drawVotes(votes) {
    $("votes").hidden = !votes.length;
    $("votes").replaceChildren(
      ...votes.map((vote) => {
        const line = element("li", `${vote.name}: ${describe(vote)}`, { class: vote.decision });
        if (vote.note) line.append(element("q", vote.note));
        return line;
      }),
    );
  }

  // In a group: show the vote of the current member, if there is one.
  turn(vote) {
    this.wrong = vote?.label_right === false;
    $("note").value = vote?.note || "";
    this.showWrong();
  }

  showWrong() {
    $("wrong-button").setAttribute("aria-pressed", String(this.wrong));
  }

  // -- deciding -----------------------------------------------------------------------------------------------------

  decide(fields) {
    const { card } = this.host;
    if (!this.host.ready || this.feedback.about) return undefined;
    const anchorStage = card.stage === "anchor";
    const body = {
      decision: fields.decision,
      reason: fields.reason || "",
      bad_anchor: Boolean(fields.bad_anchor),
      label_right: anchorStage ? null : !this.wrong,
      labels: anchorStage && fields.decision === "similar" ? this.labels.chosen : [],
      note: this.host.note(),
    };
    if (anchorStage && body.decision === "similar" && !this.labels.chosen.length) return this.host.say("A good anchor needs at least one label.");
    if (card.stage === "practice") return this.teach(card, body);
    if (this.strip.isOn) return body.bad_anchor ? this.sendSet(this.strip.bad(this.host.session.page_version, this.host.seconds)) : this.strip.mark(body);
    return this.joint ? this.joint.vote(body) : this.host.decide(body);
  }

  // After a practice pair, show the right answer and the reason before the next card.
  teach(card, body) {
    const { decision, reason, note } = card.right;
    const right = body.decision === decision;
    keep(this.practised, String(Number(card.task.slice(8)) + 1));
    const text = [right ? "Right: " : "Not quite. The guidelines call this ", element("b", describe({ decision, reason }))];
    this.feedback.tell(body, right, ...text, note ? `. ${note}` : ".");
  }

  save() {
    if (!this.host.ready) return;
    if (this.joint) this.saveJoint();
    else if (this.strip.isOn) {
      this.keepNote();
      const votes = this.strip.votes(this.host.session.page_version, this.host.seconds);
      if (votes.length) this.sendSet(votes);
      else this.host.forward(); // nothing changed
    }
  }

  sendSet(votes) {
    const decision = this.strip.outcome(votes);
    this.strip.saved();
    this.host.put("/api/decisions/set", { who: this.host.session.person.name, votes }, { decision });
  }

  // A note belongs to the image that was shown when it was written.
  keepNote() {
    if (this.strip.isOn && this.host.note() !== this.strip.said().note) this.strip.mark({ note: this.host.note() }, { stay: true });
  }

  takeBack() {
    return this.host.ready && this.strip.takeBack();
  }

  saveJoint() {
    if (!this.joint.complete) return;
    const votes = this.joint.bodies(this.host.card, this.host.seconds, this.host.session.page_version);
    this.host.put("/api/joint/decisions", { votes }, { votes: this.joint.votes });
  }

  // The other pairs of a dropped set no longer need an answer.
  decided(card, body) {
    const bad = body.votes ? Object.values(body.votes).some((one) => one.bad_anchor) : body.bad_anchor;
    if (!bad && (card.stage !== "anchor" || body.decision === "similar")) this.dropped.delete(card.anchor);
    else this.dropped.add(card.anchor);
    if (this.hints === "after") suggestAfter(card, body);
  }

  act(action) {
    const { viewer, host } = this;
    if (action === "similar" || action === "unsure") return this.decide({ decision: action });
    if (REASONS.includes(action)) return host.card?.stage === "anchor" ? undefined : this.decide({ decision: "dissimilar", reason: action });
    if (action === "wrong") {
      this.wrong = !this.wrong;
      if (this.strip.isOn && host.ready) this.strip.mark({ label_right: !this.wrong, note: host.note() }, { stay: true });
      return this.showWrong();
    }
    const move = this.strip.isOn && (MOVE[action] || (viewer.scale === 1 && ARROWS[action]));
    if (move) {
      this.keepNote();
      return move(this.strip);
    }
    if (action === "bad") return this.drop.ask();
    if (action === "search") return $("label-panel").hidden ? undefined : $("search").focus();
    if (action === "save") return this.save();
    if (action === "member-next") return this.joint?.step(1);
    if (action === "member-before") return this.joint?.step(-1);
    if (action === "view") return viewer.switchView();
    if (action === "flip") return viewer.flip();
    if (action === "auto") return viewer.alternate();
    if (action === "diff") return viewer.toggleDifference();
    if (action === "zoom-in") return viewer.zoomAt(1.5);
    if (action === "zoom-out") return viewer.zoomAt(1 / 1.5);
    if (action === "zoom-reset") return viewer.reset();
    if (PAN[action]) return viewer.move(...PAN[action]);
    return undefined;
  }

  keyBehindDialog(event, open) {
    this.drop.keyBehind(event, open);
  }

  repeats(action) {
    return action in PAN || (this.strip.isOn && action in MOVE);
  }
}
