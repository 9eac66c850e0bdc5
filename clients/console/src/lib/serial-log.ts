/** The serial log of a VM as lines: what it printed, without what would control a terminal. */

/** A part as the API sends it: bytes in Base64, cut anywhere. */
export interface Part {
  offset?: string;
  print_time?: string;
  data?: string;
}

export interface Line {
  text: string;
  /** When its beginning was printed; empty for what was not. */
  time: string;
}

export interface SerialLog {
  lines: Line[];
  /** Bytes of the line that has not ended, and its time. */
  rest: Uint8Array;
  restTime: string;
  /** Offset of what comes next; `undefined` before the first part. */
  next: number | undefined;
}

export const NO_LOG: SerialLog = { lines: [], rest: new Uint8Array(), restTime: "", next: undefined };
/** Lines that a view keeps; a download has all. */
export const MOST_LINES = 5000;
const GAP: Line = { text: "[A part of the log is missing: it is no longer retained.]", time: "" };
const NEWLINE = 10;
// eslint-disable-next-line no-control-regex
const CONTROL = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b.|[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

export function bytesOf(data: string): Uint8Array {
  return Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
}

/** A line without escape sequences and control characters. */
export function plain(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).replace(CONTROL, "");
}

/** The log after some parts; changes nothing in place. */
export function withParts(log: SerialLog, parts: Part[]): SerialLog {
  const lines = [...log.lines];
  let { rest, restTime, next } = log;
  for (const { offset = "0", print_time = "", data = "" } of parts) {
    const added = bytesOf(data);
    if (next !== undefined && Number(offset) > next) lines.push(GAP);
    next = Number(offset) + added.length;
    const bytes = new Uint8Array(rest.length + added.length);
    bytes.set(rest);
    bytes.set(added, rest.length);
    if (rest.length === 0) restTime = print_time;
    let begin = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, begin)) {
      lines.push({ text: plain(bytes.subarray(begin, end)), time: restTime });
      restTime = print_time;
      begin = end + 1;
    }
    rest = bytes.slice(begin);
  }
  return { lines: lines.slice(-MOST_LINES), rest, restTime, next };
}

/** What is shown: the lines, and the one that has not ended. */
export function shownLines({ lines, rest, restTime }: SerialLog): Line[] {
  return rest.length === 0 ? lines : [...lines, { text: plain(rest), time: restTime }];
}

/** The lines that have a text, in upper or lower case. */
export function matching(lines: Line[], search: string): Line[] {
  const wanted = search.toLowerCase();
  return wanted ? lines.filter(({ text }) => text.toLowerCase().includes(wanted)) : lines;
}
