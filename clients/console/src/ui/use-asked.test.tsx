import type { ReactNode } from "react";
import { expect, it, vi } from "vitest";
import { Toggle as AccountToggle } from "../views/accounts/accounts";
import { Toggle as ImageToggle } from "../views/catalog/images";
import { Reach } from "../views/launch/storage-network";
import { ChangeState } from "../views/principals/principals";
import { Toggle as WebhookToggle } from "../views/project/webhooks";
import { partOf } from "./fixture";

const kept = await vi.hoisted(async () => (await import("./fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
vi.mock("../session/roles", async (original) => ({ ...(await original<object>()), useProjectMay: () => true, useProjectRole: () => "owner" }));
const api = vi.hoisted(() => ({ send: vi.fn(async (_: unknown) => undefined) }));
const changes = vi.hoisted(() => (of: { etag?: string }) => ({ mutateAsync: (change: unknown) => api.send([change, of.etag]) }));
vi.mock("../api/network", async (original) => ({ ...(await original<object>()), useSetProjectNetwork: () => ({ mutateAsync: api.send }) }));
vi.mock("../api/catalog", async (original) => ({ ...(await original<object>()), useSetImageStatus: () => ({ mutateAsync: api.send }) }));
vi.mock("../api/principals", async (original) => ({ ...(await original<object>()), usePrincipalState: changes }));
vi.mock("../api/accounts", async (original) => ({ ...(await original<object>()), useAccountState: changes }));
vi.mock("../api/webhooks", async (original) => ({ ...(await original<object>()), useWebhookState: changes }));

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

interface Dialog {
  title: string;
  action: string;
  run: () => Promise<unknown>;
  reset: (reloaded: boolean) => void;
}

const CASES: [string, (on: boolean, etag: string) => ReactNode, [string, string], unknown, unknown][] = [
  ["the network of a project", (reach, etag) => Reach({ reach, etag, project: "p" }), ["Isolate", "Allow"], { vms_reach_each_other: false, etag: "e1" }, { vms_reach_each_other: true, etag: "e2" }],
  ["an image", (on, etag) => ImageToggle({ image: { slug: "i", status: on ? "active" : "disabled", etag } }), ["Disable", "Activate"], { slug: "i", status: "disabled", etag: "e1" }, { slug: "i", status: "active", etag: "e2" }],
  ["a webhook", (on, etag) => WebhookToggle({ webhook: { id: "w", state: on ? "enabled" : "disabled", etag } }), ["Disable", "Enable"], ["disable", "e1"], ["enable", "e2"]],
  ["a service account", (on, etag) => AccountToggle({ account: { id: "a", slug: "a", etag, ...(!on && { disable_time: "2026-01-01T00:00:00Z" }) } }), ["Disable", "Enable"], ["disable", "e1"], ["enable", "e2"]],
  ["who is registered", (on, etag) => ChangeState({ principal: { id: "u", name: "u", etag, ...(!on && { disable_time: "2026-01-01T00:00:00Z" }) } }), ["Disable", "Enable"], [{ verb: "disable", reason: "" }, "e1"], [{ verb: "enable", reason: "" }, "e2"]],
];

it.each(CASES)("the question about %s stays what it was while somebody else changes it", async (_, view, [before, after], asked, anew) => {
  kept.forget();
  api.send.mockClear();
  let [on, etag] = [true, "e1"];
  const dialog = () => {
    const found = partOf<Dialog>(kept.drawn(() => view(on, etag)), "run");
    if (!found) throw new Error("no dialog");
    return found;
  };
  dialog().reset(false);
  expect(dialog().action).toBe(before);
  const { title } = dialog();
  [on, etag] = [false, "e2"];
  expect([dialog().action, dialog().title]).toEqual([before, title]);
  await dialog().run();
  expect(api.send).toHaveBeenLastCalledWith(asked);
  // once the reader has loaded the change
  dialog().reset(true);
  expect(dialog().action).toBe(after);
  expect(dialog().title).not.toBe(title);
  await dialog().run();
  expect(api.send).toHaveBeenLastCalledWith(anew);
});
