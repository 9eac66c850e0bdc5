import { describe, expect, it } from "vitest";
import type { Allocation } from "../../api/types";
import { ANYWHERE, kindsFor, labelsOf, namesOf, neighbours, placementOf, sensible, whereProblem } from "./request";

describe("several at once", () => {
  it("one has its name, several have it with their number", () => {
    expect(namesOf("web", 1)).toEqual(["web"]);
    expect(namesOf("web", 3)).toEqual(["web-1", "web-2", "web-3"]);
  });

  it("each on its own node is a choice for several only, and keeps to a label of its own", () => {
    expect(kindsFor(1).map(({ value }) => value)).not.toContain("apart");
    expect(kindsFor(2).map(({ value }) => value)).toContain("apart");
    expect(placementOf({ ...ANYWHERE, kind: "apart" }, "web")).toEqual({ placement: { anti_affinity_label: "launch=web" }, labels: { launch: "web" } });
  });
});

describe("where it may run", () => {
  it("is asked of the API as chosen, and nothing where it may run anywhere", () => {
    expect(placementOf(ANYWHERE, "web")).toEqual({ labels: {} });
    expect(placementOf({ ...ANYWHERE, kind: "same", same: "1" }, "web").placement).toEqual({ affinity: "1" });
    expect(placementOf({ ...ANYWHERE, kind: "away", away: ["1", "2"] }, "web").placement).toEqual({ anti_affinity: ["1", "2"] });
    expect(placementOf({ ...ANYWHERE, kind: "mate", mate: " app=db " }, "web").placement).toEqual({ affinity_label: "app=db" });
    expect(placementOf({ ...ANYWHERE, kind: "label", label: " app=db " }, "web").placement).toEqual({ anti_affinity_label: "app=db" });
  });

  it("con_10_only_where_the_image_is_cached_goes_with_every_place_of_a_virtual_machine", () => {
    const cached = { ...ANYWHERE, prewarmed: true };
    expect(placementOf(cached, "web")).toEqual({ placement: { require_prewarmed: true }, labels: {} });
    expect(placementOf({ ...cached, kind: "apart" }, "web")).toEqual({ placement: { anti_affinity_label: "launch=web", require_prewarmed: true }, labels: { launch: "web" } });
    expect(sensible(cached, 1, "gpu_slice")).toEqual(cached);
    expect(placementOf(sensible(cached, 1, "baremetal"), "web")).toEqual({ labels: {} });
    // what is on another region's node, or has ended, is not asked for without being seen
    const chosen = { ...ANYWHERE, kind: "away" as const, same: "1", away: ["1", "2"] };
    expect(sensible(chosen, 1, "gpu_slice", [{ id: "2" }])).toEqual({ ...chosen, same: "", away: ["2"] });
    expect(sensible(chosen, 1, "gpu_slice")).toEqual(chosen);
    // "one per node" is dropped for one, and nothing else
    expect(sensible({ ...cached, kind: "apart" }, 1, "gpu_slice")).toEqual(cached);
    expect(sensible({ ...cached, kind: "apart" }, 2, "gpu_slice").kind).toBe("apart");
  });

  it("is said in full before anything is launched", () => {
    expect(whereProblem(ANYWHERE)).toBeUndefined();
    for (const kind of ["same", "mate", "away", "label"] as const) expect(whereProblem({ ...ANYWHERE, kind })).toBeTruthy();
    expect(whereProblem({ ...ANYWHERE, kind: "label", label: "app" })).toBeTruthy();
    expect(whereProblem({ ...ANYWHERE, kind: "mate", mate: "app=db" })).toBeUndefined();
    expect(whereProblem({ ...ANYWHERE, kind: "away", away: ["1"] })).toBeUndefined();
  });

  it("one can be near to what is on a node of the region, and not to what waits or has ended", () => {
    const one = (name: string, state: "active" | "requested" | "released", region_code = "a") => ({ id: name, config: { name, region_code }, status: { state } }) as Allocation;
    const found = neighbours([one("b", "active"), one("a", "active"), one("c", "requested"), one("d", "released"), one("e", "active", "other")], "a");
    expect(found.map(({ id }) => id)).toEqual(["a", "b"]);
  });
});

it("labels are read as they are typed", () => {
  expect(labelsOf("app=db, team=ml")).toEqual({ app: "db", team: "ml" });
  expect(labelsOf("a=b=c x=")).toEqual({ a: "b=c", x: "" });
  expect(labelsOf("  ")).toEqual({});
  expect(labelsOf("app")).toBeUndefined();
  expect(labelsOf("=db")).toBeUndefined();
});
