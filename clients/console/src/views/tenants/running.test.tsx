import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { type Left, LeftText } from "./running";

const left = (count: number): Left[] => Array.from({ length: count }, (_, at) => ({ id: String(at), kind: at === 0 ? "Capacity reservation" : "Allocation", name: `web-${at}`, state: "Active", to: "/" }));
const shown = (count: number, more = false) => renderToStaticMarkup(<LeftText running={{ left: left(count), more }} />);

it("whoever closes a project reads what it is closed after, of many the first ones", () => {
  expect(shown(0)).toContain("Nothing runs in it");
  expect(shown(2)).toContain("Capacity reservation <strong>web-0</strong>");
  expect(shown(2)).toContain("Allocation <strong>web-1</strong>");
  expect(shown(8)).not.toContain("more");
  expect(shown(10)).toContain("and 2 more");
  expect(shown(10, true)).toContain("and more");
  expect(renderToStaticMarkup(<LeftText running={undefined} />)).toContain("Reading the allocations");
});
