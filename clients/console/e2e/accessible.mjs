// What axe-core finds in a page.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const GRAVE = ["moderate", "serious", "critical"];
// of WCAG 2.2 AA, and off unless it is asked for
const RULES = { "target-size": { enabled: true } };

// what axe leaves open and a person has judged: letters of one sign and links below a sticky header, whose colours it
// cannot see, and what a dialog keeps out of reach without an attribute that says so
const JUDGED = ["color-contrast", "aria-hidden-focus", "link-in-text-block"];

/** Each violation that is more than minor that was found, and each doubt that is not known, with its rule and its first elements. */
export const findings = [];

/** Looks at a page as it is now. */
export async function accessible(page, where) {
  // through the debugger, which the page's content policy does not bind
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  // colours are judged as they are when nothing moves any more
  await page.evaluate(() => Promise.allSettled(document.getAnimations().filter((a) => a.effect?.getComputedTiming().iterations !== Infinity).map((a) => a.finished)));
  const { violations, incomplete } = await page.evaluate((rules) => window.axe.run(document, { resultTypes: ["violations", "incomplete"], rules }), RULES);
  const doubts = incomplete.filter(({ id }) => !JUDGED.includes(id));
  const grave = [...violations.filter(({ impact }) => GRAVE.includes(impact)), ...doubts];
  for (const { id, help, nodes } of grave) {
    findings.push(`${where}: ${id} (${help}): ${nodes.slice(0, 3).map(({ target, failureSummary }) => `${target.join(" ")} ${failureSummary?.split("\n")[1]?.trim() ?? ""}`).join("; ")}`);
  }
  const lesser = violations.filter(({ impact }) => !GRAVE.includes(impact)).map(({ id }) => id);
  if (lesser.length > 0) console.log(`      ${where}: lesser findings: ${lesser.join(", ")}`);
}
