// Do these two look the same? An anchor and a neighbour; in the label stage an anchor alone.

import { $, element, post } from "./api.js";
import { JointPanel, describe } from "./joint.js";
import { actionOf } from "./keys.js";
import { LabelPanel } from "./labels.js";
import { Viewer } from "./viewer.js";

const REASONS = ["motion", "background", "blur", "occlusion", "deformation", "other"];
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
    undo: ["z", "Undo: back to the decision before"],
    forward: ["y", "Keep it, go on"],
    view: ["v", "Side by side or in place"],
    flip: [" ", "Flip between anchor and neighbour"],
    auto: ["f", "Alternate by itself"],
    diff: ["x", "Pixel difference"],
    "zoom-in": ["+", "Zoom in"],
    "zoom-out": ["-", "Zoom out"],
    "zoom-reset": ["0", "Fit"],
    left: ["ArrowLeft", "Move the view left"],
    right: ["ArrowRight", "Move the view right"],
    up: ["ArrowUp", "Move the view up"],
    down: ["ArrowDown", "Move the view down"],
    search: ["/", "Search a class (label stage)"],
    "member-next": ["]", "Next member (deciding together)"],
    "member-before": ["[", "Member before (deciding together)"],
    "save-joint": ["Enter", "Save all votes (deciding together)"],
    help: ["?", "This list"],
  };

  many = "pairs";
  id = "verdict_id";

  // `host` is the page: what is shared by all questions.
  constructor(host) {
    this.host = host;
    this.viewer = new Viewer();
    this.labels = new LabelPanel();
    this.joint = null;
    this.wrong = false;
    this.asked = null; // the card that the question about its anchor is about
    this.dropped = new Set(); // anchors called bad here: a claim may still list their pairs
    this.setUpConfirm();
  }

  async enter(session) {
    this.labels.classes = session.classes;
    const names = JointPanel.asked();
    if (this.joint || !names.length || !session.is_admin) return;
    const joint = new JointPanel((vote) => this.turn(vote));
    if (await joint.start(names)) this.joint = joint;
    else this.host.say("None of these names takes part in this review.");
  }

  // Someone new is here: nothing of who was here before may go on.
  forget() {
    this.dropped = new Set();
  }

  // A group claims together, walks back through what it decided together, and its decisions are kept as one.
  get past() {
    return this.joint?.past;
  }

  claim(want) {
    return this.joint && post("/api/joint/claim", { members: this.joint.members, want });
  }

  pictures(card) {
    return card.neighbour ? [card.anchor, card.neighbour] : [card.anchor];
  }

  isWanted(card) {
    return card.stage !== "pair" || !this.dropped.has(card.anchor);
  }

  // -- one card -----------------------------------------------------------------------------------------------------

  // `step` is what was decided before, where we are walking back.
  show(card, step) {
    const earlier = step?.decision;
    this.wrong = earlier?.label_right === false;
    this.draw(card, earlier);
    if (card.stage === "anchor") this.labels.show(earlier?.labels?.length ? earlier.labels : card.labels.map((label) => label.id));
    if (this.joint) this.joint.show(step?.votes || []);
    this.showWrong();
    return this.viewer.show(card, this.pictures(card));
  }

  said(step) {
    if (this.joint) return "Decided together. Change a vote and save all again, or keep it.";
    return `You said: ${describe(step.decision)}. Decide again, or keep it.`;
  }

  unreadable = "A picture of this pair cannot be read. Choose unsure, and say so in the note.";

  draw(card, earlier) {
    const anchorStage = card.stage === "anchor";
    $("review").className = anchorStage ? "anchor-stage" : card.stage;
    $("question").textContent = this.ask(card);
    $("hint").textContent = anchorStage
      ? "Add what is missing, remove what is not there."
      : "If something distinctive is visible in one frame only, choose dissimilar.";
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
    if (card.stage === "anchor") return "Which of these classes are in the picture?";
    if (this.joint) return "Together: do these two look the same?";
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

  // Deciding together: what the member whose turn it is said, or nothing yet.
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
    if (!this.host.ready) return undefined;
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
    return this.joint ? this.joint.vote(body) : this.host.decide(body);
  }

  saveJoint() {
    if (!this.joint?.complete || !this.host.ready) return;
    const votes = this.joint.bodies(this.host.card, this.host.seconds, this.host.session.page_version);
    this.host.put("/api/joint/decisions", { votes }, { votes: this.joint.votes });
  }

  // The other pairs of a dropped set need no answer any more.
  decided(card, body) {
    if (!body.bad_anchor && (card.stage !== "anchor" || body.decision === "similar")) this.dropped.delete(card.anchor);
    else this.dropped.add(card.anchor);
  }

  act(action) {
    const { viewer, host } = this;
    if (action === "similar" || action === "unsure") return this.decide({ decision: action });
    if (REASONS.includes(action)) return host.card?.stage === "anchor" ? undefined : this.decide({ decision: "dissimilar", reason: action });
    if (action === "wrong") {
      this.wrong = !this.wrong;
      return this.showWrong();
    }
    if (action === "bad") return this.askWhetherBad();
    if (action === "search") return $("label-panel").hidden ? undefined : $("search").focus();
    if (action === "save-joint") return this.saveJoint();
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

  repeats(action) {
    return action in PAN;
  }

  // -- dropping a set -----------------------------------------------------------------------------------------------

  askWhetherBad() {
    if (!this.host.ready) return;
    this.asked = this.host.card;
    $("confirm").showModal();
  }

  // A second press may come before the dialog has the focus.
  keyBehindDialog(event, open) {
    if (open.id === "confirm" && !open.contains(event.target) && actionOf(event) === "bad" && !event.repeat) $("confirm-yes").click();
  }

  setUpConfirm() {
    $("confirm-no").addEventListener("click", () => $("confirm").close());
    $("confirm-yes").addEventListener("click", () => {
      if (!$("confirm").open) return;
      $("confirm").close();
      if (this.host.card === this.asked) this.decide({ decision: "dissimilar", bad_anchor: true });
    });
    $("confirm").addEventListener("keydown", (event) => {
      // After Escape the focus stays inside the closed dialog for a moment: what is pressed then was never asked about.
      if (!$("confirm").open || actionOf(event) !== "bad" || event.repeat) return;
      event.preventDefault();
      event.stopPropagation(); // or the same press would ask again for the next pair
      $("confirm-yes").click();
    });
  }
}
