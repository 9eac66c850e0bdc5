import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Meter, type Part, partsText } from "./meter";

const parts: Part[] = [
  { label: "in use", value: 3, tone: "busy" },
  { label: "unused", value: 0, tone: "good" },
  { label: "missing", value: 1, tone: "idle", hollow: true },
];

it("a bar has a text, and empty parts are not drawn", () => {
  expect(partsText(parts)).toBe("3 in use, 1 missing");
  expect(partsText([])).toBe("none");
  const shown = renderToStaticMarkup(<Meter parts={parts} label="GPUs" legend />);
  expect(shown).toContain('aria-label="GPUs: 3 in use, 1 missing"');
  expect(shown.match(/flex-grow/g)).toHaveLength(2);
  // the legend names all of them, so that one can compare
  expect(shown.match(/<li>/g)).toHaveLength(3);
});
