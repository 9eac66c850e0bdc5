import { describe, expect, it } from "vitest";
import type { Allocation, AllocationState, Image, PlacementConstraints, Sku } from "../../api/types";
import { againOf } from "./again";
import { ANYWHERE } from "./request";

const skus = [{ code: "s", capacity_shape: "gpu_slice", allowed_gpu_counts: [1, 2] }] as Sku[];
const images: Image[] = [{ slug: "i", status: "active", compatible_skus: ["s"] }];
const earlier = (config: Allocation["config"] = {}, labels: Record<string, string> = {}): Allocation => ({
  id: "0",
  config: { name: "web", region_code: "a", sku: "s", gpu_count: 1, image: "i", ...config },
  metadata: { labels },
});
const one = (id: string, state: AllocationState, region_code = "a"): Allocation => ({ id, config: { name: id, region_code }, status: { state } });
const all = [one("1", "active"), one("2", "provisioning"), one("3", "released"), one("4", "requested"), one("5", "active", "b")];
const again = (placement: PlacementConstraints | undefined, of = earlier()) => againOf({ ...of, config: { ...of.config, placement } }, all, { skus, images });

describe("a launch like an earlier one", () => {
  it("con_10_keeps_the_placement_constraints_of_the_earlier_launch", () => {
    expect(again({})).toEqual({ where: ANYWHERE, labels: "", left: [] });
    expect(again({ require_prewarmed: true })).toEqual({ where: { ...ANYWHERE, prewarmed: true }, labels: "", left: [] });
    expect(again({ affinity: "1", require_prewarmed: true }).where).toEqual({ ...ANYWHERE, kind: "affinity", affinity: "1", prewarmed: true });
    expect(again({ anti_affinity: ["1", "2"] })).toEqual({ where: { ...ANYWHERE, kind: "anti_affinity", anti_affinity: ["1", "2"] }, labels: "", left: [] });
    expect(again({ affinity_label: "app=db" })).toEqual({ where: { ...ANYWHERE, kind: "affinity_label", affinity_label: "app=db" }, labels: "", left: [] });
    expect(again({ anti_affinity_label: "launch=web" }).where).toEqual({ ...ANYWHERE, kind: "anti_affinity_label", anti_affinity_label: "launch=web" });
  });

  it("leaves out what is no longer on a node of the region, and reports it", () => {
    for (const id of ["3", "4", "5", "unknown"]) {
      const { where, left } = again({ affinity: id, require_prewarmed: true });
      expect(where).toEqual({ ...ANYWHERE, prewarmed: true });
      expect(left).toEqual(["The allocation of the affinity is no longer on a node."]);
    }
    const some = again({ anti_affinity: ["1", "3", "unknown"] });
    expect(some.where).toEqual({ ...ANYWHERE, kind: "anti_affinity", anti_affinity: ["1"] });
    expect(some.left).toEqual(["2 allocations of the anti-affinity are no longer on a node."]);
    expect(again({ anti_affinity: ["3"] })).toEqual({ where: ANYWHERE, labels: "", left: ["1 allocation of the anti-affinity is no longer on a node."] });
  });

  it("reports that the form takes one of several constraints", () => {
    const { where, left } = again({ affinity_label: "app=db", anti_affinity: ["1"] });
    expect(where.kind).toBe("affinity_label");
    expect(left).toEqual([expect.stringContaining("several placement constraints")]);
  });

  it("reports that the placement of a launch by an older release is unknown", () => {
    const { where, left } = again(undefined);
    expect(where).toEqual(ANYWHERE);
    expect(left).toEqual([expect.stringContaining("was not recorded")]);
  });

  it("has its labels, and names those that cannot be entered", () => {
    const { labels, left } = again({}, earlier({}, { app: "db", team: "ml", note: "two words", list: "a,b", empty: "" }));
    expect(labels).toBe("app=db, team=ml, empty=");
    expect(left).toEqual(["These labels cannot be entered here and are left out: note, list."]);
  });

  it("asks for the user data, which nobody can read back", () => {
    expect(again({}, earlier({ user_data: { digest: "sha256:0", size_bytes: 3 } })).left).toEqual([expect.stringContaining("User data is not copied")]);
  });

  it("reports what is no longer offered", () => {
    expect(again({}, earlier({ sku: "gone" })).left).toEqual(["The SKU gone is no longer offered. Another one is chosen."]);
    expect(again({}, earlier({ gpu_count: 4 })).left).toEqual(["s is no longer offered with 4 GPUs. Another count is chosen."]);
    expect(again({}, earlier({ image: "gone" })).left).toEqual([expect.stringContaining("The image gone is no longer available for s")]);
  });
});
