/** One key for one attempt, so that a request that is sent again does nothing twice. */
import { idempotencyKey } from "@gpuaas/sdk";
import { useRef } from "react";

/** Gives the same attempt for the same text, and a new one with a new key for another text. */
export function useAttempt<T>(text: string, begin: () => T): () => T & { key: string } {
  const kept = useRef<{ text: string; attempt: T & { key: string } }>(undefined);
  return () => {
    if (kept.current?.text !== text) kept.current = { text, attempt: { ...begin(), key: idempotencyKey() } };
    return kept.current.attempt;
  };
}
