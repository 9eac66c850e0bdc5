/** Etags of drafts. */
import { useState } from "react";

/**
 * The etag of what a draft was begun from: what somebody else changes later is not overwritten.
 * `id` names what is changed; while nothing is drafted, the etag is the one that was read last.
 */
export function useEtag(id: string, read: string | undefined, drafting: boolean): string | undefined {
  const [begun, begin] = useState<{ id: string; etag: string }>();
  const kept = drafting && begun?.id === id ? begun : undefined;
  if (kept) return kept.etag;
  if (!drafting && begun) begin(undefined);
  if (drafting && read !== undefined) begin({ id, etag: read });
  return read;
}
