/** Etags of drafts. */
import { useState } from "react";

/**
 * The etag of what a draft was begun from, so that what somebody else changes later is not overwritten; and what makes it the
 * one that was read last, for when the reader has seen what it is now. `id` names what is changed.
 */
export function useEtag(id: string, read: string | undefined, drafting: boolean): [string | undefined, () => void] {
  const [begun, begin] = useState<{ id: string; etag: string }>();
  const renew = () => begin(undefined);
  const kept = drafting && begun?.id === id ? begun : undefined;
  if (kept) return [kept.etag, renew];
  if (!drafting && begun) begin(undefined);
  if (drafting && read !== undefined) begin({ id, etag: read });
  return [read, renew];
}
