import type { ReactNode } from "react";
import { expect, it, vi } from "vitest";
import type { Region, Sku } from "../api/types";
import type { PlatformRole } from "../session/rights";
import { RegionForm } from "../views/catalog/regions";
import { SkuForm } from "../views/catalog/skus";
import { Change as Guardrails } from "../views/organisation/guardrails";
import { Rename as RenameOrganisation } from "../views/organisation/organisation";
import { ChangeRole } from "../views/principals/principals";
import { Rename as RenameProject } from "../views/project/settings";
import { partOf } from "./fixture";

const kept = await vi.hoisted(async () => (await import("./fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
const api = vi.hoisted(() => ({ send: vi.fn(async (_: unknown) => undefined) }));
const changes = vi.hoisted(() => () => ({ mutateAsync: api.send }));
vi.mock("../api/tenancy", async (original) => ({ ...(await original<object>()), useRenameOrganisation: changes, useRenameProject: changes }));
vi.mock("../api/guardrails", async (original) => ({ ...(await original<object>()), useChangeGuardrails: changes }));
vi.mock("../api/catalog", async (original) => ({ ...(await original<object>()), usePutRegion: changes, usePutSku: changes }));
vi.mock("../api/queries", async (original) => ({ ...(await original<object>()), useRegions: () => ({ data: [] }), useSkus: () => ({ data: [] }) }));
vi.mock("../api/principals", async (original) => ({ ...(await original<object>()), useSetPlatformRole: (of: { etag?: string }) => ({ mutateAsync: (role: unknown) => api.send([role, of.etag]) }) }));

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

interface Dialog {
  changed: boolean;
  run: () => Promise<unknown>;
  reset: (reloaded: boolean) => void;
}

const sku = { code: "s", capacity_shape: "gpu_slice", slot_class: "c", allowed_gpu_counts: [1], profile: { name: "p", vcpus_per_gpu: 1, memory_mib_per_gpu: 1024 } };
const NAMES = ["Old", "Mine", "Theirs"] as const;

const CASES: [string, (value: string, etag: string) => ReactNode, readonly [string, string, string]][] = [
  ["the name of an organisation", (display_name, etag) => RenameOrganisation({ organisation: { id: "o", display_name, etag } }), NAMES],
  ["the name of a project", (display_name, etag) => RenameProject({ project: { id: "p", display_name, etag } }), NAMES],
  ["a region", (display_name, etag) => RegionForm({ region: { code: "r", display_name, enabled: true, etag } as Region, trigger: null }), NAMES],
  ["a SKU", (display_name, etag) => SkuForm({ sku: { ...sku, display_name, etag } as Sku, trigger: null }), NAMES],
  ["the guardrails", (days, etag) => Guardrails({ guardrails: { organisation_id: "o", max_api_key_days: Number(days), etag } }), ["30", "90", "60"]],
  ["a role on the platform", (role, etag) => ChangeRole({ principal: { id: "u", name: "user:u", platform_role: role as PlatformRole, etag } }), ["auditor", "operator", "admin"]],
];

it.each(CASES)("what was typed into the form of %s stays when somebody else changes it, until the reader loads the change", async (_, view, [old, mine, theirs]) => {
  kept.forget();
  api.send.mockClear();
  let [value, etag] = [old, "e1"];
  const drawn = () => kept.drawn(() => view(value, etag));
  const dialog = () => {
    const found = partOf<Dialog>(drawn(), "run");
    if (!found) throw new Error("no dialog");
    return found;
  };
  const field = () => partOf<{ label: string; value: string; onChange: (value: string) => void }>(drawn(), "label");
  dialog().reset(false);
  expect([field()?.value, dialog().changed]).toEqual([old, false]);
  field()?.onChange(mine);
  [value, etag] = [theirs, "e2"];
  expect([field()?.value, dialog().changed]).toEqual([mine, true]);
  // what somebody else did is not overwritten
  await dialog().run();
  expect(JSON.stringify(api.send.mock.lastCall)).toContain('"e1"');
  dialog().reset(true);
  expect([field()?.value, dialog().changed]).toEqual([theirs, false]);
  field()?.onChange(mine);
  await dialog().run();
  expect(JSON.stringify(api.send.mock.lastCall)).toContain('"e2"');
});
