/** A session that this tab left by a reload, with the output that was on the screen: for whoever it is of, until they sign out. */
import type { TerminalSaved } from "@gpuaas/sdk";

const KEY = "gpuaas.terminal:";
/** Output that is shown again, in bytes. */
const MOST_BYTES = 131_072;
const NEWLINE = 10;

/** Ids have no space. */
const ownerKey = (principal: string) => `${KEY}${principal} `;

/** The latest output of a session. */
export class Transcript {
  private parts: Uint8Array[] = [];
  private length = 0;

  add(data: Uint8Array): void {
    this.parts.push(data.slice());
    this.length += data.length;
    while (this.length - (this.parts[0]?.length ?? 0) > MOST_BYTES) this.length -= this.parts.shift()?.length ?? 0;
  }

  clear(): void {
    this.parts = [];
    this.length = 0;
  }

  /** Whole lines, when more than is kept was shown. */
  bytes(): Uint8Array {
    const all = new Uint8Array(this.length);
    let at = 0;
    for (const part of this.parts) {
      all.set(part, at);
      at += part.length;
    }
    if (all.length <= MOST_BYTES) return all;
    const cut = all.slice(all.length - MOST_BYTES);
    return cut.slice(cut.indexOf(NEWLINE) + 1);
  }
}

function toText(data: Uint8Array): string {
  let text = "";
  for (const byte of data) text += String.fromCharCode(byte);
  return btoa(text);
}

function fromText(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export interface Left {
  saved: TerminalSaved;
  output: Uint8Array;
}

/** Keeps a session for the page that comes next in this tab. */
export function leave(principal: string, allocationId: string, { saved, output }: Left): void {
  const { input, ...rest } = saved;
  const text = JSON.stringify({ ...rest, input: { offset: input.offset, data: toText(input.data) }, output: toText(output) });
  try {
    sessionStorage.setItem(ownerKey(principal) + allocationId, text);
  } catch {
    // then the reload begins a new session
  }
}

/** Takes what the page before left; nothing when it is too old to be resumed. A session is taken once. */
export function takeLeft(principal: string, allocationId: string, now: number): Left | undefined {
  try {
    const key = ownerKey(principal) + allocationId;
    const text = sessionStorage.getItem(key);
    sessionStorage.removeItem(key);
    if (!text) return undefined;
    const { output, input, ...rest } = JSON.parse(text) as Omit<TerminalSaved, "input"> & { output: string; input: { offset: number; data: string } };
    if (now - rest.time > rest.ready.resume_seconds * 1000) return undefined;
    return { saved: { ...rest, input: { offset: input.offset, data: fromText(input.data) } }, output: fromText(output) };
  } catch {
    return undefined;
  }
}

/** Forgets what was left by everybody but `principal`; without one by everybody. */
export function forgetLeft(principal?: string): void {
  try {
    const keys = Array.from({ length: sessionStorage.length }, (_, index) => sessionStorage.key(index) ?? "");
    const kept = principal === undefined ? undefined : ownerKey(principal);
    for (const key of keys) if (key.startsWith(KEY) && !(kept && key.startsWith(kept))) sessionStorage.removeItem(key);
  } catch {
    // then nothing was kept
  }
}
