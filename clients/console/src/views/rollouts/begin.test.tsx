import { type ReactNode, isValidElement } from "react";
import { expect, it, vi } from "vitest";
import { partOf } from "../../ui/fixture";
import { Begin } from "./list";

const kept = await vi.hoisted(async () => (await import("../../ui/fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState, useRef: <T,>(first: T) => kept.useState({ current: first })[0] }));
vi.mock("wouter", async (original) => ({ ...(await original<object>()), useLocation: () => ["/", () => undefined] }));
const api = vi.hoisted(() => ({ create: vi.fn(async (_: { key: string }) => ({ id: "r" })) }));
vi.mock("../../api/rollouts", async (original) => ({ ...(await original<object>()), useCreateRollout: () => ({ mutateAsync: api.create }) }));

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

interface FieldProps {
  label?: string;
  onChange?: (value: string) => void;
  children?: ReactNode;
}

/** Types into the field with this label. */
function enter(node: ReactNode, label: string, value: string): void {
  if (Array.isArray(node)) return (node as ReactNode[]).forEach((one) => enter(one, label, value));
  if (!isValidElement<FieldProps>(node)) return;
  if (node.props.label === label) node.props.onChange?.(value);
  enter(node.props.children, label, value);
}

it("a rollout that is sent again has its key, whatever its version is called, and another one has another", async () => {
  const dialog = () => kept.drawn(Begin);
  const start = () => partOf<{ run: () => Promise<unknown> }>(dialog(), "run")?.run();
  enter(dialog(), "Version", "2026.7.1-rc.1+build.20260730");
  enter(dialog(), "Digest of the package", `sha256:${"a".repeat(64)}`);
  enter(dialog(), "Size of the package in bytes", "1000");
  api.create.mockRejectedValueOnce(new Error("no answer"));
  await expect(start()).rejects.toThrow("no answer");
  await start();
  enter(dialog(), "Reason", "new checks");
  await start();
  const [first, again, other] = api.create.mock.calls.map(([{ key }]) => key);
  expect(first).toMatch(/^[!-~]{1,128}$/);
  expect(again).toBe(first);
  expect(other).not.toBe(first);
});
