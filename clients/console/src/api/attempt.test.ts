import { expect, it, vi } from "vitest";
import { type KeyHeader, attempts } from "./attempt";
import { problemFrom, unreachable } from "./fixture";

const keyOf = ({ "X-Idempotency-Key": key }: KeyHeader) => key;

/** Sends values with these outcomes, one after the other, and gives what was sent with which key. */
function sending(...outcomes: unknown[]) {
  const attempt = attempts<string>();
  const send = vi.fn(async (value: string, _: KeyHeader) => {
    const outcome = outcomes.shift();
    if (outcome instanceof Error) throw outcome;
    return value;
  });
  const press = (text: string, value = text) => attempt(text, value, send).catch((error: unknown) => error);
  return { press, sent: () => send.mock.calls.map(([value, header]) => [value, keyOf(header)] as const) };
}

it("what is sent again after its answer was lost has the same key and the same body", async () => {
  const { press, sent } = sending(unreachable(), problemFrom(503, {}), undefined);
  await press("a", "expires at noon");
  await press("a", "expires later");
  expect(await press("a", "expires still later")).toBe("expires at noon");
  const [first, ...others] = sent();
  expect(first?.[1]).toMatch(/^[!-~]{1,128}$/);
  expect(others).toEqual([first, first]);
});

it("another body has another key", async () => {
  const { press, sent } = sending(unreachable(), unreachable());
  await press("a");
  await press("b");
  const [first, second] = sent().map(([, key]) => key);
  expect(second).toMatch(/^[!-~]{1,128}$/);
  expect(second).not.toBe(first);
});

it.each([
  ["was made", undefined],
  ["was refused", problemFrom(409, {})],
])("what %s and is sent once more has another key", async (_, outcome) => {
  const { press, sent } = sending(outcome, undefined);
  await press("a");
  await press("a");
  const [first, second] = sent().map(([, key]) => key);
  expect(second).toMatch(/^[!-~]{1,128}$/);
  expect(second).not.toBe(first);
});
