import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { unreachable } from "../api/fixture";
import { Loaded } from "./loaded";

const asked = <T,>(data?: T, error: unknown = null) => ({ data, error, refetch: () => {} });
const show = (one: ReturnType<typeof asked<number>>, other: ReturnType<typeof asked<string>>) =>
  renderToStaticMarkup(
    <Loaded of={[one, other]} lines={2} label="Loading both">
      {(count, name) => `${count} ${name}`}
    </Loaded>,
  );

it("what needs several answers is shown when all have arrived, and a skeleton until then", () => {
  expect(show(asked(0), asked("of them"))).toBe("0 of them");
  for (const shown of [show(asked(), asked("of them")), show(asked(0), asked())]) {
    expect(shown).toContain('aria-label="Loading both"');
    expect(shown).not.toContain("of them");
  }
});

it("a failure is shown in place of the skeleton, and beside earlier answers", () => {
  const first = show(asked<number>(undefined, unreachable()), asked("of them"));
  expect(first).toContain("The server does not answer");
  expect(first).not.toContain("Loading both");
  const later = show(asked(0), asked("of them", unreachable()));
  expect(later).toContain("The server does not answer");
  expect(later).toContain("Try again");
  expect(later).toContain("0 of them");
});
