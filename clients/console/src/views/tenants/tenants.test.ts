import { expect, it, vi } from "vitest";
import { found } from "./tenants";

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

it("an organisation is found by itself and by each of its projects, and keeps all of them", () => {
  const organisations = [{ id: "o1", slug: "acme", display_name: "Acme Inc" }, { id: "o2", slug: "globex" }, { id: "o3", slug: "empty" }];
  const projects = [{ id: "p1", slug: "vision", organisation: "acme" }, { id: "p2", slug: "audio", organisation: "acme" }, { id: "p3", slug: "ml", organisation: "globex" }];
  const of = (search: string) => found(organisations, projects, search).map(({ organisation, own }) => [organisation.slug, ...own.map(({ slug }) => slug)].join(" "));
  expect(of("")).toEqual(["acme vision audio", "globex ml", "empty"]);
  expect(of(" VIS ")).toEqual(["acme vision audio"]);
  expect([of("acme inc"), of("p3"), of("o3"), of("nobody")]).toEqual([["acme vision audio"], ["globex ml"], ["empty"], []]);
});
