/** One key for one attempt at a change: what is sent again after its answer was lost is not made twice. */
import { idempotencyKey } from "@gpuaas/sdk";
import { useState } from "react";
import { Problem } from "./problem";

export interface KeyHeader {
  "X-Idempotency-Key": string;
}

/**
 * Sends a value under a text that says what it stands for. The same text is the same attempt, with the first one's value and key,
 * until the server has answered with what was made or with a refusal: after that, the same is another change.
 */
export function attempts<T>() {
  let kept: { text: string; value: T; key: string } | undefined;
  return async <R>(text: string, value: T, send: (value: T, header: KeyHeader) => Promise<R>): Promise<R> => {
    const attempt = kept?.text === text ? kept : { text, value, key: idempotencyKey() };
    kept = attempt;
    const end = () => {
      if (kept === attempt) kept = undefined;
    };
    try {
      const made = await send(attempt.value, { "X-Idempotency-Key": attempt.key });
      end();
      return made;
    } catch (error) {
      // without an answer nobody knows whether it was made
      if (error instanceof Problem && !error.transient) end();
      throw error;
    }
  };
}

/**
 * A change for `useMutation` that is made once, however often the person presses. `target` names what it is made in; `same` gives
 * what makes two values one change, where that is less than all: a time that was computed from now is another one each time.
 */
export function useOnce<T, R>(target: string, change: (value: T, header: KeyHeader) => Promise<R>, same: (value: T) => unknown = (value) => value): (value: T) => Promise<R> {
  const [attempt] = useState(() => attempts<T>());
  return (value) => attempt(JSON.stringify([target, same(value)]), value, change);
}
