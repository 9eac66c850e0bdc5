/** Recordings: asciicast v3, output and sizes with the time since the event before. */

export interface CastEvent {
  /** Seconds since the start, with long pauses cut short. */
  at: number;
  kind: "o" | "r";
  data: string;
}

export interface Cast {
  cols: number;
  rows: number;
  events: CastEvent[];
  /** Seconds. */
  length: number;
}

/** Nobody wants to watch somebody think. */
const LONGEST_PAUSE_SECONDS = 2;

/** `undefined` when the text is no recording; a torn last line is left out. */
export function parseCast(text: string): Cast | undefined {
  const [first = "", ...lines] = text.split("\n");
  const header = parse(first) as { version?: number; term?: { cols?: number; rows?: number } } | undefined;
  if (header?.version !== 3) return undefined;
  const events: CastEvent[] = [];
  let at = 0;
  for (const line of lines) {
    const event = line.startsWith("[") ? parse(line) : undefined;
    if (!Array.isArray(event) || typeof event[0] !== "number") continue;
    at += Math.min(event[0], LONGEST_PAUSE_SECONDS);
    if (event[1] === "o" || event[1] === "r") events.push({ at, kind: event[1], data: String(event[2]) });
  }
  return { cols: header.term?.cols ?? 80, rows: header.term?.rows ?? 24, events, length: at };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
