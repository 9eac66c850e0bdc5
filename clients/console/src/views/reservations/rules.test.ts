import { describe, expect, it } from "vitest";
import type { Reservation } from "../../api/types";
import { fromField, toField } from "../../lib/time";
import { partsText } from "../../ui/meter";
import { type Draft, draftOf, filterOf, mayEnd, paramsOf, partsOf, passedPercent, problemsOf, requestOf, sizeOf, totalsOf, unusedOf, usageText, waysOf } from "./rules";

const NOW = new Date(2026, 0, 31, 12, 0).getTime();
const HOUR = 3_600_000;

function reservation(status: Reservation["status"], gpu_count = 8): Reservation {
  return { id: "r", config: { name: "training", region_code: "a", sku: "s", gpu_count, start_time: new Date(NOW).toISOString(), end_time: new Date(NOW + 4 * HOUR).toISOString() }, status };
}

it("h_33_a_refused_reservation_is_never_advised_to_request_fewer_gpus_than_the_sku_allows_or_a_disabled_region", () => {
  const ways = (gpus: string, enabled: boolean) => waysOf({ gpus, region: "a" }, 2, [{ code: "a", enabled: true }, { code: "b", enabled }]);
  expect(ways("2", false)).toEqual(["wait until capacity becomes free"]);
  expect(ways("4", true)).toEqual(["request fewer GPUs", "choose another region", "wait until capacity becomes free"]);
});

it("reservations are searched by the server: by name, SKU, region and project, by state, and those with unused GPUs", () => {
  const projects = [{ id: "p", slug: "vision" }, { id: "q", slug: "revision" }, { id: "r", slug: "speech" }];
  const filter = (search: string, state = "", idle = false) => filterOf({ search, state, idle }, projects).filter;
  expect(filter(" ")).toBe("");
  expect(filter("Night VISION")).toBe('(name:"Night" OR sku:"Night" OR region_code:"Night") AND (name:"VISION" OR sku:"VISION" OR region_code:"VISION" OR project_id = p OR project_id = q)');
  expect(filter("", "ended", true)).toBe("state = ended AND unused_gpus > 0");
  expect(filter("", "nonsense")).toBe("");
  const id = "01930000-0000-7000-8000-00000000000a";
  expect(filter(id)).toContain(`OR project_id = ${id})`);
});

describe("what a reservation is", () => {
  it("its GPUs are in use, unused, unavailable or missing; what was given back is none of them", () => {
    const some = reservation({ state: "gathering", reserved_gpus: 5, used_gpus: 2, unused_gpus: 2, unavailable_gpus: 1, released_gpus: 1 });
    expect(sizeOf(some)).toBe(7);
    expect(partsText(partsOf(some))).toBe("2 in use, 2 unused, 1 unavailable, 2 missing");
    expect(usageText(some)).toBe("7 GPUs: 2 in use, 2 unused, 1 unavailable, 2 missing");
  });

  it("one that has not begun, or is over, misses nothing", () => {
    expect(usageText(reservation({ state: "scheduled" }))).toBe("8 GPUs, none reserved yet");
    expect(usageText(reservation({ state: "ended" }))).toBe("8 GPUs");
    const all = [reservation({ state: "scheduled" }), reservation({ state: "active", reserved_gpus: 8, used_gpus: 6, unused_gpus: 2 }), reservation({ state: "canceled" })];
    expect(partsText(totalsOf(all))).toBe("6 in use, 2 unused");
  });

  it("its window passes", () => {
    expect([0, 1, 4, 9].map((hours) => passedPercent(reservation({}), NOW + hours * HOUR))).toEqual([0, 25, 100, 100]);
    expect(passedPercent({}, NOW)).toBe(0);
  });

  it("a project that says nothing of unused GPUs keeps them as long as the site allows, an operator as long as the window", () => {
    const unsaid = (side: "project" | "operator") => unusedOf(side).filter(({ value }) => value === 0).map(({ label }) => label);
    expect(unsaid("project")).toEqual(["The site’s maximum"]);
    expect(unsaid("operator")).toEqual(["Never"]);
  });

  it("a project ends its own, an operator every one, and nobody what is over", () => {
    const made = (made_by_project: boolean, state: "active" | "ended"): Reservation => ({ ...reservation({ state }), metadata: { made_by_project } });
    expect(mayEnd("project", made(true, "active"))).toBe(true);
    expect(mayEnd("project", made(false, "active"))).toBe(false);
    expect(mayEnd("operator", made(false, "active"))).toBe(true);
    expect(mayEnd("operator", made(false, "ended"))).toBe(false);
  });
});

describe("what may be reserved", () => {
  const draft: Draft = { project: "", name: "training", region: "a", sku: "s", gpus: "8", later: false, start: "", end: toField(NOW + HOUR), hours: undefined, unused: 0, gather: true };
  const wrong = (change: Partial<Draft>, least = 1) => Object.keys(problemsOf({ ...draft, ...change }, "project", least, NOW));

  it("a right one is right", () => {
    expect(wrong({})).toEqual([]);
    expect(wrong({ later: true, start: toField(NOW + HOUR), end: toField(NOW + 2 * HOUR) })).toEqual([]);
  });

  it.each([
    ["name", { name: "No" }],
    ["gpus", { gpus: "" }],
    ["gpus", { gpus: "1.5" }],
    ["gpus", { gpus: "1025" }],
    ["start", { later: true, start: "" }],
    ["start", { later: true, start: toField(NOW - HOUR) }],
    ["start", { later: true, start: toField(NOW + 91 * 24 * HOUR), end: toField(NOW + 92 * 24 * HOUR) }],
    ["end", { end: "" }],
    ["end", { end: toField(NOW) }],
    ["end", { end: toField(NOW + 91 * 24 * HOUR) }],
  ])("%s is judged: %j", (field, change) => {
    expect(wrong(change)).toEqual([field]);
  });

  it("the count is what the product can offer, and an operator names the project", () => {
    expect(wrong({ gpus: "6" }, 4)).toEqual(["gpus"]);
    expect(wrong({ gpus: "12" }, 4)).toEqual([]);
    expect(Object.keys(problemsOf(draft, "operator", 1, NOW))).toEqual(["project"]);
  });

  it("is asked for with the times that the fields say, and one that begins later gathers by itself", () => {
    const now = requestOf(draft, "project", "", NOW);
    expect(now).toEqual({ config: { name: "training", region_code: "a", sku: "s", gpu_count: 8, end_time: new Date(NOW + HOUR).toISOString(), release_unused_after_seconds: 0 }, gather: true });
    const start = toField(NOW + HOUR);
    const later = requestOf({ ...draft, later: true, start, project: " p " }, "operator", "own", NOW);
    expect(later.config.start_time).toBe(new Date(fromField(start) ?? 0).toISOString());
    expect(later.config.project_id).toBe("p");
    expect(later.gather).toBe(false);
  });
});

it("a length that was chosen is kept to the second, whatever the field for the end shows", () => {
  const draft: Draft = { project: "", name: "training", region: "a", sku: "s", gpus: "1", later: false, start: toField(NOW + HOUR), end: "", hours: 8, unused: 0, gather: false };
  const pressed = NOW + 59_999;
  expect(requestOf(draft, "project", "", pressed).config.end_time).toBe(new Date(pressed + 8 * HOUR).toISOString());
  const later = requestOf({ ...draft, later: true }, "project", "", pressed).config;
  expect([later.start_time, later.end_time]).toEqual([new Date(NOW + HOUR).toISOString(), new Date(NOW + 9 * HOUR).toISOString()]);
  expect(problemsOf(draft, "project", 1, pressed)).toEqual({});
});

it("the choices of a reservation are the same after a reload, and nothing usual stands in the address", () => {
  const usual = { project: "p", name: "n", region: "a", sku: "s", gpus: "1" };
  const read = (draft: Draft) => draftOf(new URLSearchParams(Object.entries(paramsOf(draft, usual)).filter(([, value]) => value)), usual, NOW);
  const fresh = draftOf(new URLSearchParams(), usual, NOW);
  expect(Object.values(paramsOf(fresh, usual)).join("")).toBe("");
  for (const draft of [
    fresh,
    { ...fresh, gpus: "16", gather: true, unused: 7200, hours: 168 },
    { ...fresh, later: true, start: toField(NOW + 5 * HOUR), hours: undefined, end: toField(NOW + 9 * HOUR) },
  ]) expect(read(draft)).toEqual(draft);
  // a sent link means the same moment in every zone
  expect(paramsOf({ ...fresh, later: true, start: toField(NOW) }, usual).start).toBe(new Date(NOW).toISOString());
});
