// What axe-core finds in a page.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const OPTIONS = {
  resultTypes: ["violations", "incomplete"],
  // of WCAG 2.2 AA, and off unless it is asked for
  rules: { "target-size": { enabled: true } },
  // a single letter and an arrow are read as text is
  checks: { "color-contrast": { options: { ignoreLength: true, ignoreUnicode: false } } },
};

// what axe cannot decide, with the elements that it cannot decide it of: a dialog of Radix stands between two places that
// Tab comes to and that pass it on to the dialog, with no name and hidden, since nobody stays there
const UNDECIDED = [["aria-hidden-focus", "[data-radix-focus-guard]"]];

/** Each violation that was found, however small, and each doubt, with its rule and its first elements. */
export const findings = [];

/**
 * Decides what axe left open, as who scrolls there sees it: text that stood half outside of what scrolls, and texts of drawings,
 * whose backgrounds axe does not know. What is still open is returned.
 */
export async function decide({ incomplete, options, undecided }) {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const luminance = (...colours) => {
    pixel.clearRect(0, 0, 1, 1);
    for (const colour of colours) {
      pixel.fillStyle = colour;
      pixel.fillRect(0, 0, 1, 1);
    }
    const [red, green, blue] = [...pixel.getImageData(0, 0, 1, 1).data].map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  /** The colours below a text of a drawing, the lowest first: of the elements around the drawing, and of the shape that it stands on. */
  const below = (text) => {
    const colours = [];
    for (let one = text.closest("svg").parentElement; one; one = one.parentElement) colours.unshift(getComputedStyle(one).backgroundColor);
    const shape = text.parentElement.closest("g")?.querySelector(":scope > rect");
    const fill = shape && getComputedStyle(shape).fill;
    return fill && fill !== "none" ? [...colours, fill] : colours;
  };
  const ratio = (element) => {
    const under = below(element.closest("text"));
    const [dark, light] = [luminance(...under), luminance(...under, getComputedStyle(element).fill)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const scrolled = new Map();
  const open = [];
  for (const { id, help, nodes } of incomplete) {
    for (const { target, failureSummary = "" } of nodes) {
      const element = document.querySelector(target.at(-1));
      const say = (why) => open.push({ id, help, why: [...target, ...(element ? [element.outerHTML.slice(0, 120)] : []), why].join(" ") });
      if (!element) {
        say("is gone");
        continue;
      }
      if (undecided.some(([rule, selector]) => rule === id && element.matches(selector))) continue;
      if (id === "color-contrast" && element.closest("svg text")) {
        if (ratio(element) < 4.5) say(`has a contrast of ${ratio(element).toFixed(2)}`);
        continue;
      }
      for (let one = element.parentElement; one; one = one.parentElement) if (!scrolled.has(one)) scrolled.set(one, [one.scrollLeft, one.scrollTop]);
      element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      const again = await window.axe.run({ include: [target] }, { ...options, runOnly: { type: "rule", values: [id] } });
      const left = [...again.violations, ...again.incomplete].flatMap(({ nodes: found }) => found);
      if (left.length > 0) say(left[0].failureSummary?.split("\n")[1]?.trim() ?? failureSummary);
    }
  }
  for (const [one, [left, top]] of scrolled) one.scrollTo({ left, top, behavior: "instant" });
  return open;
}

/** Looks at a page as it is now. */
export async function accessible(page, where) {
  // through the debugger, which the page's content policy does not bind
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  // colours are judged as they are when nothing moves any more
  await page.evaluate(() => Promise.allSettled(document.getAnimations().filter((a) => a.effect?.getComputedTiming().iterations !== Infinity).map((a) => a.finished)));
  const { violations, incomplete } = await page.evaluate((options) => window.axe.run(document, options), OPTIONS);
  for (const { id, help, nodes } of violations) {
    findings.push(`${where}: ${id} (${help}): ${nodes.slice(0, 3).map(({ target, failureSummary }) => `${target.join(" ")} ${failureSummary?.split("\n")[1]?.trim() ?? ""}`).join("; ")}`);
  }
  const open = incomplete.length === 0 ? [] : await page.evaluate(decide, { incomplete, options: OPTIONS, undecided: UNDECIDED });
  for (const { id, help, why } of open.slice(0, 3)) findings.push(`${where}: ${id} is left open (${help}): ${why}`);
}
