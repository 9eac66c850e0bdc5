import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { rememberPlace, rememberedPlace } from "./places";

const kept = new Map<string, string>();
beforeEach(() => vi.stubGlobal("localStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, text: string) => kept.set(key, text) }));
afterEach(() => {
  kept.clear();
  vi.unstubAllGlobals();
});

it("where launches were asked to run is remembered, of the latest, and that it was nowhere in particular", () => {
  rememberPlace([{ id: "1" }, { id: "2" }], { require_prewarmed: true });
  rememberPlace([{ id: "3" }]);
  expect(["1", "2", "3", "4"].map(rememberedPlace)).toEqual([{ require_prewarmed: true }, { require_prewarmed: true }, {}, undefined]);
  for (let more = 0; more < 200; more++) rememberPlace([{ id: `more-${more}` }]);
  expect([rememberedPlace("3"), rememberedPlace("more-0"), rememberedPlace("more-199")]).toEqual([undefined, {}, {}]);
});

it.each(["nonsense", "{}", "null", "[1, null]"])("what others wrote there does no harm: %s", (text) => {
  kept.set("gpuaas.places", text);
  expect(rememberedPlace("1")).toBeUndefined();
  rememberPlace([{ id: "1" }]);
  expect(rememberedPlace("1")).toEqual({});
});

it("without storage it is not known", () => {
  vi.unstubAllGlobals();
  rememberPlace([{ id: "1" }]);
  expect(rememberedPlace("1")).toBeUndefined();
});
