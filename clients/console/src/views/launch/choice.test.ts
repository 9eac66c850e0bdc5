import { describe, expect, it } from "vitest";
import type { Availability, Sku } from "../../api/types";
import { Problem, unreachable } from "../../api/problem";
import { nameProblem } from "../../lib/words";
import { SHAPES, WAITS, anyFits, firstChoice, firstRegion, fitOf, imagesFor, isRefused, regionProblem, shapeOf, skusOf, waitFor, worthJudging } from "./choice";

const availability: Availability[] = [
  { region_code: "a", sku: "big", gpu_count: 8, fits: 0, reasons: [{ reason: "NO_CAPACITY" }] },
  { region_code: "a", sku: "small", gpu_count: 1, fits: 2 },
  { region_code: "b", sku: "small", gpu_count: 1, fits: 0 },
];
const skus = ["big", "small"].map((code) => ({ code }) as Sku);

describe("the launch form", () => {
  it("begins with a product that fits", () => {
    expect(firstChoice(skus, availability, "a")?.code).toBe("small");
    expect(firstChoice(skus, availability, "b")?.code).toBe("big");
    expect(firstChoice([], availability, "a")).toBeUndefined();
  });

  it("finds the reasons of exactly one combination", () => {
    expect(fitOf(availability, "a", "big", 8)?.reasons?.[0]?.reason).toBe("NO_CAPACITY");
    expect(fitOf(availability, "b", "big", 8)).toBeUndefined();
    expect(anyFits(availability, "b", "small")).toBe(false);
  });

  it("offers active images that the product can run", () => {
    const image = (slug: string, status: "active" | "disabled", skus: string[]) => ({ slug, status, compatible_skus: skus });
    const images = [image("x", "active", ["small"]), image("y", "disabled", ["small"]), image("z", "active", ["big"])];
    expect(imagesFor(images, "small").map(({ slug }) => slug)).toEqual(["x"]);
  });

  it("h_25_one_launch_branches_into_virtual_machine_and_whole_node", () => {
    const shaped = [{ code: "slice", capacity_shape: "gpu_slice" }, { code: "node", capacity_shape: "baremetal" }] as Sku[];
    expect(SHAPES.map(({ value }) => skusOf(shaped, value).map(({ code }) => code))).toEqual([["slice"], ["node"]]);
    // so that one to launch again is not turned into another product
    expect(["slice", "node", "gone"].map((code) => shapeOf(shaped, code))).toEqual(["gpu_slice", "baremetal", "gpu_slice"]);
    // of either, what has no room is known with its reason
    expect([{ fits: 1 }, { fits: 0 }, undefined].map(worthJudging)).toEqual([true, false, false]);
    expect(isRefused(new Problem({ status: 400, message: "no" }))).toBe(true);
    expect(isRefused(unreachable())).toBe(false);
  });

  it("a launch that may wait gives up in time, and never later than the server allows", () => {
    const now = Date.parse("2026-01-31T12:00:00Z");
    expect(waitFor(2, now)).toEqual({ deadline: "2026-01-31T13:59:00.000Z" });
    expect(Math.max(...WAITS)).toBe(7 * 24);
  });

  it("h_27_a_region_is_chosen_even_if_there_is_but_one", () => {
    expect(firstRegion([{ code: "only", enabled: true }])).toBe("only");
    expect(firstRegion([{ code: "a", enabled: false }, { code: "b", enabled: true }])).toBe("b");
    expect(firstRegion([{ code: "a", enabled: false }])).toBe("a");
    expect(firstRegion([])).toBe("");
  });

  it("h_28_a_disabled_region_says_why", () => {
    expect(regionProblem({ code: "a", enabled: true, unavailable_reason: "old" })).toBeUndefined();
    expect(regionProblem({ code: "a", enabled: false, unavailable_reason: "Opens in spring." })).toBe("Opens in spring.");
    expect(regionProblem({ code: "a", enabled: false })).toBe("Not available.");
  });

  it.each(["a", "2a", "first-2", `a${"b".repeat(62)}`])("%s is a name", (name) => expect(nameProblem(name)).toBeUndefined());
  it.each(["", "-a", "a-", "A", "a_b", "a".repeat(64)])("%j is no name", (name) => expect(nameProblem(name)).toBeTruthy());
});
