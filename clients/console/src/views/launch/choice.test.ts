import { describe, expect, it } from "vitest";
import type { Availability, Image, Sku } from "../../api/types";
import { unreachable } from "../../api/fixture";
import { Problem } from "../../api/problem";
import { nameProblem } from "../../lib/text";
import { SHAPES, WAITS, anyFits, closedNote, firstChoice, firstRegion, fitOf, fitsNow, imagesFor, isRefused, regionProblem, capacityOf, shapeOf, skusOf, waitFor, waysOf, worthJudging } from "./choice";

const availability: Availability[] = [
  { region_code: "a", sku: "big", gpu_count: 8, fits: 0, reasons: [{ reason: "NO_CAPACITY" }] },
  { region_code: "a", sku: "small", gpu_count: 1, fits: 2 },
  { region_code: "b", sku: "small", gpu_count: 1, fits: 0 },
];
const price_per_gpu_hour = { currency_code: "USD", units: "1", nanos: 0 };
const skus = ["big", "small"].map((code) => ({ code, price_per_gpu_hour }) as Sku);
const images = [{ slug: "i", status: "active", compatible_skus: ["big", "small"] }] as Image[];

describe("the launch form", () => {
  it("starts with a SKU that fits", () => {
    const opening = { availability, images };
    expect(firstChoice(skus, opening, "a")?.code).toBe("small");
    expect(firstChoice(skus, opening, "b")?.code).toBe("big");
    expect(firstChoice([], opening, "a")).toBeUndefined();
  });

  it("does not open on a SKU without a price or an image, nor on a region without capacity", () => {
    const bare = { ...skus[0], price_per_gpu_hour: undefined } as Sku;
    expect(firstChoice([bare, ...skus.slice(1)], { availability, images }, "b")?.code).toBe("small");
    expect(firstChoice(skus, { availability, images: [{ ...images[0], compatible_skus: ["small"] }] }, "b")?.code).toBe("small");
    const regions = [{ code: "empty", enabled: true }, { code: "b", enabled: true }, { code: "a", enabled: true }];
    expect(firstRegion(regions, { skus, availability, images })).toBe("a");
    const full = availability.map((a) => ({ ...a, fits: 0 }));
    expect(firstRegion(regions, { skus, availability: full, images })).toBe("b");
  });

  it("finds the reasons of exactly one combination", () => {
    expect(fitOf(availability, "a", "big", 8)?.reasons?.[0]?.reason).toBe("NO_CAPACITY");
    expect(fitOf(availability, "b", "big", 8)).toBeUndefined();
    expect(anyFits(availability, "b", "small")).toBe(false);
  });

  it("offers active images that the SKU can run", () => {
    const image = (slug: string, status: "active" | "disabled", skus: string[]) => ({ slug, status, compatible_skus: skus });
    const images = [image("x", "active", ["small"]), image("y", "disabled", ["small"]), image("z", "active", ["big"])];
    expect(imagesFor(images, "small").map(({ slug }) => slug)).toEqual(["x"]);
  });

  it("h_25_one_launch_branches_into_virtual_machine_and_bare_metal", () => {
    const shaped = [{ code: "slice", capacity_shape: "gpu_slice" }, { code: "node", capacity_shape: "baremetal" }] as Sku[];
    expect(SHAPES.map(({ value }) => skusOf(shaped, value).map(({ code }) => code))).toEqual([["slice"], ["node"]]);
    // so that a repeated launch does not turn into another SKU
    expect(["slice", "node", "gone"].map((code) => shapeOf(shaped, code))).toEqual(["gpu_slice", "baremetal", "gpu_slice"]);
    // of either, what has no room is known with its reason
    expect([1, 0, undefined].map(worthJudging)).toEqual([true, false, false]);
    expect(isRefused(new Problem({ status: 400, message: "no" }))).toBe(true);
    expect(isRefused(unreachable())).toBe(false);
    // trying again may work, but nothing says so yet
    expect(isRefused(new Problem({ status: 409, message: "no", reason: "NO_CAPACITY" }))).toBe(true);
    expect(isRefused(new Problem({ status: 503, message: "no", reason: "OVERLOADED" }))).toBe(false);
  });

  it("b_57_what_is_free_but_goes_to_queued_requests_does_not_count_as_capacity", () => {
    const ahead = [{ reason: "QUEUED_AHEAD", nodes: 1 }];
    expect(capacityOf({ fits: 1 }, { nodes: 1, nodes_fit: 0, removed: ahead })).toBe(0);
    // of what is left beside it, as many as there are nodes are sure
    expect(capacityOf({ fits: 12 }, { nodes: 3, nodes_fit: 2, removed: ahead })).toBe(2);
    expect(capacityOf({ fits: 12 }, { nodes: 3, nodes_fit: 2 })).toBe(12);
    expect(capacityOf({ fits: 0 }, { nodes: 3, nodes_fit: 2 })).toBe(2);
    expect([capacityOf({ fits: 3 }, undefined), capacityOf(undefined, undefined)]).toEqual([3, undefined]);
  });

  it("several fit when there is capacity for all of them, or when the server confirms it", () => {
    expect([fitsNow(2, 2, undefined), fitsNow(1, 2, undefined), fitsNow(undefined, 1, undefined)]).toEqual([true, false, false]);
    expect([fitsNow(1, 2, true), fitsNow(1, 2, false), fitsNow(0, 2, true), fitsNow(0, 1, true)]).toEqual([true, false, false, false]);
  });

  it("h_33_a_launch_that_does_not_fit_gets_only_advice_that_applies", () => {
    const lab = { allowed_gpu_counts: [1, 2] } as Sku;
    const regions = [{ code: "a", enabled: true }, { code: "b", enabled: false }];
    const short = { regions, skus: [lab], region: "a", sku: lab, gpus: 1, count: 1, waits: false, explanation: { nodes: 1 } };
    const wait = "select “Queue this launch if it does not fit now”";
    expect(waysOf(short)).toEqual([wait]);
    expect(waysOf({ ...short, gpus: 2 })).toEqual([wait, "request fewer GPUs per allocation"]);
    expect(waysOf({ ...short, count: 2 })).toEqual([wait, "reduce the count"]);
    expect(waysOf({ ...short, regions: [...regions, { code: "c", enabled: true }] })).toEqual([wait, "choose another region"]);
    expect(waysOf({ ...short, waits: true })).toEqual(["wait until capacity becomes free"]);
    // waiting does not bring GPUs of a kind that is not there
    const none = { ...short, gpus: 2, count: 2, explanation: { nodes: 0 } };
    expect([waysOf(none), waysOf({ ...none, skus: [lab, lab] })]).toEqual([[], ["choose another SKU"]]);
  });

  it("a queued launch has a deadline that the server accepts", () => {
    const now = Date.parse("2026-01-31T12:00:00Z");
    expect(waitFor(2, now)).toEqual({ deadline: "2026-01-31T14:00:00.000Z" });
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
    expect(regionProblem({ code: "a", enabled: false, unavailable_reason: "Opens in spring." })).toBe("Closed: Opens in spring.");
    expect(regionProblem({ code: "a", enabled: false })).toBe("Closed: no reason was given.");
  });

  it("h_28_a_form_whose_region_is_closed_says_why_and_which_are_open", () => {
    const closed = { code: "a", display_name: "Europe", enabled: false, unavailable_reason: "Opens in spring." };
    expect(closedNote([closed, { code: "b", enabled: true }], "a")).toBe("Europe is closed: Opens in spring. Choose an open region: b.");
    expect(closedNote([closed], "a")).toBe("Europe is closed: Opens in spring. No other region is open.");
    expect(closedNote([closed, { code: "b", enabled: true }], "b")).toBeUndefined();
    expect(closedNote([], "")).toBeUndefined();
  });

  it("says why a region is not allowed, and which ones are", () => {
    const regions = [{ code: "a", display_name: "Europe", enabled: true }, { code: "b", enabled: true }, { code: "c", enabled: false, unavailable_reason: "Full." }];
    const guardrails = { allowed_regions: ["b", "c"] };
    expect(regions.map((region) => regionProblem(region, guardrails))).toEqual(["Your organisation does not allow this region.", undefined, "Closed: Full."]);
    expect(closedNote(regions, "a", guardrails)).toBe("Europe is not allowed by your organisation. Choose an open region: b.");
    expect(closedNote(regions, "b", guardrails)).toBeUndefined();
    expect(closedNote(regions, "a")).toBeUndefined();
  });

  it.each(["a", "2a", "first-2", `a${"b".repeat(62)}`])("%s is a name", (name) => expect(nameProblem(name)).toBeUndefined());
  it.each(["", "-a", "a-", "A", "a_b", "a".repeat(64)])("%j is no name", (name) => expect(nameProblem(name)).toBeTruthy());
});
