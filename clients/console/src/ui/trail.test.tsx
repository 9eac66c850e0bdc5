import { renderToStaticMarkup } from "react-dom/server";
import { Router } from "wouter";
import { expect, it } from "vitest";
import { zone } from "../lib/time";
import { TrailFilters, TrailFoot, type Trail, outcomeOf, useTrail } from "./trail";

/** The filters of a page at an address, and the page that they make. */
function at(search: string): { trail: Trail; markup: string } {
  let trail: Trail | undefined;
  function Filters() {
    trail = useTrail(["kind"]);
    return (
      <TrailFilters label="Records" trail={trail}>
        <b>own</b>
      </TrailFilters>
    );
  }
  const markup = renderToStaticMarkup(
    <Router ssrPath="/audit" ssrSearch={search}>
      <Filters />
    </Router>,
  );
  return { trail: trail!, markup };
}

it("the address carries who, outcome and times, and the API gets the times in UTC", () => {
  const { trail, markup } = at("who=user%3Aeve&outcome=denied&from=2026-01-31T12%3A05");
  expect(trail.who).toBe("user:eve");
  expect(trail.times).toEqual({ outcome: "denied", start_time: new Date(2026, 0, 31, 12, 5).toISOString(), end_time: "" });
  for (const part of ['role="search"', 'aria-label="Records"', 'value="user:eve"', "<b>own</b>", ">From</label>", ">To</label>", '<option value="denied" selected="">Denied</option>']) expect(markup).toContain(part);
});

it("an outcome that there is not is no filter", () => {
  expect(["", "allowed", "denied", "perhaps"].map(outcomeOf)).toEqual(["", "allowed", "denied", ""]);
  expect(at("outcome=perhaps").trail.times.outcome).toBe("");
});

it("the foot says how many there are, in which zone, and whether there are more", () => {
  const foot = (count: number, hasNextPage: boolean) => renderToStaticMarkup(<TrailFoot count={count} noun="activity" many="activities" of={{ hasNextPage, isFetchingNextPage: false, fetchNextPage: () => undefined }} />);
  expect(foot(1, false)).toBe(`<span class="muted" role="status">1 activity. Times in ${zone}.</span>`);
  expect(foot(2, true)).toContain(`2 activities, and more. Times in ${zone}.`);
  expect(foot(2, true)).toContain("Show more</button>");
});
