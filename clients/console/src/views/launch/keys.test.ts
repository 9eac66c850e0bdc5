import { beforeEach, expect, it, vi } from "vitest";
import { keptKeys, pickedFrom, pickedOf, pickedText, rememberKeys, rememberedKeys } from "./keys";

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  });
});

it("the keys of one user are not offered to another one of the same browser", () => {
  rememberKeys("user:a", "ssh-ed25519 AAAA");
  expect(rememberedKeys("user:b")).toBe("");
  expect(rememberedKeys("user:a")).toBe("ssh-ed25519 AAAA");
});

it("keys of nobody in particular are dropped", () => {
  localStorage.setItem("gpuaas.ssh-public-keys", "ssh-ed25519 BBBB");
  expect(rememberedKeys("user:a")).toBe("");
  expect(localStorage.getItem("gpuaas.ssh-public-keys")).toBeNull();
  rememberKeys("", "ssh-ed25519 CCCC");
  expect(rememberedKeys("")).toBe("");
});

it("one's own keys are picked until somebody picks, and hide those of the project with the same name", () => {
  const kept = keptKeys([{ name: "laptop" }], [{ name: "laptop" }, { name: "deploy" }]);
  expect(kept.map(({ name, of }) => `${name} ${of}`)).toEqual(["laptop yours", "deploy the project’s"]);
  expect(pickedOf(undefined, kept, false)).toEqual(["laptop"]);
  expect(pickedOf(undefined, kept, true)).toEqual([]);
  expect(pickedOf(["deploy", "gone"], kept, true)).toEqual(["deploy"]);
});

it("the address keeps which keys are picked, and that none is", () => {
  for (const picked of [undefined, [], ["laptop"], ["laptop", "deploy.2"]]) expect(pickedFrom(pickedText(picked))).toEqual(picked);
  expect(pickedFrom(null)).toBeUndefined();
});
