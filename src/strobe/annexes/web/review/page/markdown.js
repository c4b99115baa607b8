// Converts Markdown to elements. Text always stays text: HTML in the file is not interpreted, only http(s) addresses
// are linked, and no image is loaded.

import { element } from "./api.js";

const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|__(.+?)__|\*(.+?)\*|\[([^\]]*)\]\(([^)\s]*)\)|\\([\\`*_[\]()#>-])/;

// Adds the text of a line to an element, with strong text, emphasis, code and links.
export function inline(parent, text) {
  for (let rest = text; rest; ) {
    const found = INLINE.exec(rest);
    if (!found) {
      parent.append(rest);
      break;
    }
    const [whole, , code, strong, strongToo, slanted, label, address, plain] = found;
    parent.append(rest.slice(0, found.index));
    if (code !== undefined) parent.append(element("code", code));
    else if (strong || strongToo) parent.append(inline(element("strong"), strong || strongToo));
    else if (slanted) parent.append(inline(element("em"), slanted));
    else if (address !== undefined) parent.append(link(label, address));
    else parent.append(plain ?? whole);
    rest = rest.slice(found.index + whole.length);
  }
  return parent;
}

function link(label, address) {
  if (!/^https?:\/\//i.test(address)) return inline(element("span"), label || address);
  return inline(element("a", undefined, { href: address, target: "_blank", rel: "noopener noreferrer" }), label || address);
}

const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/;
const FENCE = /^\s*(```|~~~)/;
const begins = (line) => !line.trim() || HEADING.test(line) || ITEM.test(line) || RULE.test(line) || FENCE.test(line) || line.startsWith(">");

// The blocks of a text: headings, paragraphs, lists in lists, quotes, code.
export function markdown(text) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const out = document.createDocumentFragment();
  const open = []; // the lists we are in: { indent, list }
  while (lines.length) {
    const line = lines.shift();
    const item = !RULE.test(line) && ITEM.exec(line);
    if (item) {
      addItem(out, open, item, lines);
      continue;
    }
    if (line.trim()) open.length = 0;
    const heading = HEADING.exec(line);
    if (heading) out.append(inline(element(`h${Math.min(6, heading[1].length + 2)}`), heading[2]));
    else if (FENCE.test(line)) out.append(codeOf(lines, FENCE.exec(line)[1]));
    else if (RULE.test(line)) out.append(element("hr"));
    else if (line.startsWith(">")) {
      const quoted = [line];
      while (lines[0]?.startsWith(">")) quoted.push(lines.shift());
      const quote = element("blockquote");
      quote.append(markdown(quoted.map((one) => one.replace(/^>\s?/, "")).join("\n")));
      out.append(quote);
    } else if (line.trim()) {
      const paragraph = [line];
      while (lines.length && !begins(lines[0])) paragraph.push(lines.shift());
      out.append(inline(element("p"), paragraph.map((one) => one.trim()).join(" ")));
    }
  }
  return out;
}

function addItem(out, open, [, indent, mark, text], lines) {
  const kind = /\d/.test(mark) ? "ol" : "ul";
  const ends = ({ indent: own, list }) => own > indent.length || (own === indent.length && list.localName !== kind);
  while (open.length && ends(open.at(-1))) open.pop();
  if (!open.length || open.at(-1).indent < indent.length) {
    const list = element(kind);
    (open.at(-1)?.list.lastElementChild || out).append(list);
    open.push({ indent: indent.length, list });
  }
  while (lines.length && !begins(lines[0])) text += ` ${lines.shift().trim()}`;
  open.at(-1).list.append(inline(element("li"), text));
}

function codeOf(lines, fence) {
  const found = [];
  while (lines.length && !lines[0].trimStart().startsWith(fence)) found.push(lines.shift());
  lines.shift();
  const block = element("pre");
  block.append(element("code", found.join("\n")));
  return block;
}
