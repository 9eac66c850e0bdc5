/** The readiness checks of an image, as its form has them. */
import type { components } from "@gpuaas/sdk";
import { countOf } from "./parts";

export type ReadinessCheck = components["schemas"]["common.ReadinessCheck"];

/** Most checks of one image. */
export const MAX_CHECKS = 8;
/** Most seconds of one check, and of all of an image together. */
const MAX_SECONDS = 600;
const DEFAULT_SECONDS = 60;
const NAME = /^[a-z0-9-]{1,32}$/;

/** A check as it is typed. */
export interface TypedCheck {
  name: string;
  command: string;
  expected: string;
  perGpu: boolean;
  timeout: string;
}

export const NO_CHECK: TypedCheck = { name: "", command: "", expected: "", perGpu: false, timeout: "" };

/** What is wrong with the first bad one, by its field. */
export function checkProblem(checks: TypedCheck[], index: number): { field: "name" | "command" | "timeout"; text: string } | undefined {
  const { name, command, timeout } = checks[index] ?? NO_CHECK;
  if (!NAME.test(name)) return { field: "name", text: "Lowercase letters, digits and hyphens." };
  if (checks.findIndex((one) => one.name === name) < index) return { field: "name", text: "Another check has this name." };
  if (!command.trim()) return { field: "command", text: "Enter a command." };
  if (timeout !== "" && !(secondsOf(timeout) <= MAX_SECONDS)) return { field: "timeout", text: `1 to ${MAX_SECONDS} seconds.` };
  return undefined;
}

function secondsOf(timeout: string): number {
  return timeout === "" ? DEFAULT_SECONDS : (countOf(timeout) ?? Number.NaN);
}

/** What is wrong with all of them together. */
export function checksProblem(checks: TypedCheck[]): string | undefined {
  const all = checks.reduce((sum, { timeout }) => sum + secondsOf(timeout), 0);
  return all > MAX_SECONDS ? `All checks together may take ${MAX_SECONDS} seconds; these take ${all}.` : undefined;
}

export function isGood(checks: TypedCheck[]): boolean {
  return checks.every((_, index) => !checkProblem(checks, index)) && !checksProblem(checks);
}

/** As the API takes them. */
export function bodyOf(checks: TypedCheck[]): ReadinessCheck[] {
  return checks.map(({ name, command, expected, perGpu, timeout }) => ({
    name,
    command: command.trim(),
    ...(expected && { expected_text: expected }),
    ...(perGpu && { line_per_gpu: true }),
    ...(timeout && { timeout_seconds: secondsOf(timeout) }),
  }));
}
