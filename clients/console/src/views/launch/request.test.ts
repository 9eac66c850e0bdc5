import { describe, expect, it } from "vitest";
import type { Allocation } from "../../api/types";
import { ANYWHERE, type Where, kindsFor, labelsOf, namesOf, neighbours, paramsOf, placementOf, sensible, takenAmong, whereOf, whereProblem } from "./request";

describe("several at once", () => {
  it("a taken name is known before anything is sent; that of an ended allocation is free", () => {
    const named = (name: string, state: "active" | "released") => ({ config: { name }, status: { state } }) as Allocation;
    const all = [named("web-2", "active"), named("old", "released")];
    expect(takenAmong(["web-1", "web-2"], all)).toContain("already named web-2");
    expect(takenAmong(["old", "new"], all)).toBeUndefined();
  });

  it("one has the name, several have the name with a number", () => {
    expect(namesOf("web", 1)).toEqual(["web"]);
    expect(namesOf("web", 3)).toEqual(["web-1", "web-2", "web-3"]);
  });

  it("one per node is a choice for several only, and uses a label of its own", () => {
    expect(kindsFor(1).map(({ value }) => value)).not.toContain("spread");
    expect(kindsFor(2).map(({ value }) => value)).toContain("spread");
    expect(placementOf({ ...ANYWHERE, kind: "spread" }, "web")).toEqual({ placement: { anti_affinity_label: "launch=web" }, labels: { launch: "web" } });
  });
});

describe("the placement constraint", () => {
  it("is requested as chosen, and not at all for anywhere", () => {
    expect(placementOf(ANYWHERE, "web")).toEqual({ labels: {} });
    expect(placementOf({ ...ANYWHERE, kind: "affinity", affinity: "1" }, "web").placement).toEqual({ affinity: "1" });
    expect(placementOf({ ...ANYWHERE, kind: "anti_affinity", anti_affinity: ["1", "2"] }, "web").placement).toEqual({ anti_affinity: ["1", "2"] });
    expect(placementOf({ ...ANYWHERE, kind: "affinity_label", affinity_label: " app=db " }, "web").placement).toEqual({ affinity_label: "app=db" });
    expect(placementOf({ ...ANYWHERE, kind: "anti_affinity_label", anti_affinity_label: " app=db " }, "web").placement).toEqual({ anti_affinity_label: "app=db" });
  });

  it("con_10_a_cached_image_combines_with_every_placement_of_a_vm", () => {
    const cached = { ...ANYWHERE, prewarmed: true };
    expect(placementOf(cached, "web")).toEqual({ placement: { require_prewarmed: true }, labels: {} });
    expect(placementOf({ ...cached, kind: "spread" }, "web")).toEqual({ placement: { anti_affinity_label: "launch=web", require_prewarmed: true }, labels: { launch: "web" } });
    expect(sensible(cached, 1, "gpu_slice")).toEqual(cached);
    expect(placementOf(sensible(cached, 1, "baremetal"), "web")).toEqual({ labels: {} });
    // what is in another region, or has ended, is not requested unseen
    const chosen = { ...ANYWHERE, kind: "anti_affinity" as const, affinity: "1", anti_affinity: ["1", "2"] };
    expect(sensible(chosen, 1, "gpu_slice", [{ id: "2" }])).toEqual({ ...chosen, affinity: "", anti_affinity: ["2"] });
    expect(sensible(chosen, 1, "gpu_slice")).toEqual(chosen);
    // "one per node" is dropped for one, and nothing else
    expect(sensible({ ...cached, kind: "spread" }, 1, "gpu_slice")).toEqual(cached);
    expect(sensible({ ...cached, kind: "spread" }, 2, "gpu_slice").kind).toBe("spread");
  });

  it("is complete before anything is launched", () => {
    expect(whereProblem(ANYWHERE)).toBeUndefined();
    for (const kind of ["affinity", "affinity_label", "anti_affinity", "anti_affinity_label"] as const) expect(whereProblem({ ...ANYWHERE, kind })).toBeTruthy();
    expect(whereProblem({ ...ANYWHERE, kind: "anti_affinity_label", anti_affinity_label: "app" })).toBeTruthy();
    expect(whereProblem({ ...ANYWHERE, kind: "affinity_label", affinity_label: "app=db" })).toBeUndefined();
    expect(whereProblem({ ...ANYWHERE, kind: "anti_affinity", anti_affinity: ["1"] })).toBeUndefined();
  });

  it("affinity can name what is on a node of the region, and not what is queued or has ended", () => {
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

describe("a placement in the address", () => {
  const read = (where: Where, usual?: Where) => whereOf(new URLSearchParams(Object.entries(paramsOf(where, usual)).filter(([, value]) => value)));
  it("is the same after a reload", () => {
    for (const where of [
      { ...ANYWHERE, kind: "affinity", affinity: "a" },
      { ...ANYWHERE, kind: "affinity_label", affinity_label: "app=db" },
      { ...ANYWHERE, kind: "anti_affinity", anti_affinity: ["a", "b"], prewarmed: true },
      { ...ANYWHERE, kind: "anti_affinity_label", anti_affinity_label: "app=db" },
      { ...ANYWHERE, kind: "spread" },
      { ...ANYWHERE, prewarmed: true },
    ] satisfies Where[]) expect(read(where)).toEqual(where);
  });

  it("is left out when it is the usual one, which a launch that is repeated brings along", () => {
    expect(read(ANYWHERE)).toBeUndefined();
    const earlier: Where = { ...ANYWHERE, kind: "affinity", affinity: "a" };
    expect(read(earlier, earlier)).toBeUndefined();
    expect(read(ANYWHERE, earlier)).toEqual(ANYWHERE);
    expect(whereOf(new URLSearchParams("placement=elsewhere"))).toBeUndefined();
  });
});
