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
  it("con_10_keeps_to_where_the_earlier_one_was_asked_to_run", () => {
    expect(again({})).toEqual({ where: ANYWHERE, labels: "", left: [] });
    expect(again({ require_prewarmed: true })).toEqual({ where: { ...ANYWHERE, prewarmed: true }, labels: "", left: [] });
    expect(again({ affinity: "1", require_prewarmed: true }).where).toEqual({ ...ANYWHERE, kind: "same", same: "1", prewarmed: true });
    expect(again({ anti_affinity: ["1", "2"] })).toEqual({ where: { ...ANYWHERE, kind: "away", away: ["1", "2"] }, labels: "", left: [] });
    expect(again({ affinity_label: "app=db" })).toEqual({ where: { ...ANYWHERE, kind: "mate", mate: "app=db" }, labels: "", left: [] });
    expect(again({ anti_affinity_label: "launch=web" }).where).toEqual({ ...ANYWHERE, kind: "label", label: "launch=web" });
  });

  it("leaves out what is on no node of the region any more, and says so", () => {
    for (const id of ["3", "4", "5", "unknown"]) {
      const { where, left } = again({ affinity: id, require_prewarmed: true });
      expect(where).toEqual({ ...ANYWHERE, prewarmed: true });
      expect(left).toEqual(["The allocation that it was to be beside is not on a node any more."]);
    }
    const some = again({ anti_affinity: ["1", "3", "unknown"] });
    expect(some.where).toEqual({ ...ANYWHERE, kind: "away", away: ["1"] });
    expect(some.left).toEqual(["2 allocations that it was to be away from are not on a node any more."]);
    expect(again({ anti_affinity: ["3"] })).toEqual({ where: ANYWHERE, labels: "", left: ["1 allocation that it was to be away from is not on a node any more."] });
  });

  it("says that the form takes one of several places that all had to hold", () => {
    const { where, left } = again({ affinity_label: "app=db", anti_affinity: ["1"] });
    expect(where.kind).toBe("mate");
    expect(left).toEqual([expect.stringContaining("several things hold")]);
  });

  it("says that it is not known where one of an older release was asked to run", () => {
    const { where, left } = again(undefined);
    expect(where).toEqual(ANYWHERE);
    expect(left).toEqual([expect.stringContaining("was not kept then")]);
  });

  it("has its labels, but for those that cannot be typed, which are named", () => {
    const { labels, left } = again({}, earlier({}, { app: "db", team: "ml", note: "two words", list: "a,b", empty: "" }));
    expect(labels).toBe("app=db, team=ml, empty=");
    expect(left).toEqual(["Labels that cannot be typed here are left out: note, list."]);
  });

  it("says what of it is not sold any more", () => {
    expect(again({}, earlier({ sku: "gone" })).left).toEqual(["gone is not on sale any more: another product is chosen."]);
    expect(again({}, earlier({ gpu_count: 4 })).left).toEqual(["s is not sold with 4 GPUs any more: another number is chosen."]);
    expect(again({}, earlier({ image: "gone" })).left).toEqual([expect.stringContaining("The image gone cannot be launched on s any more")]);
  });
});
