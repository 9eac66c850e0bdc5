/** Bytes of a stream into lines. */
import { ProtocolError } from "./errors.js";

const MOST_LINE_BYTES = 16 * 1024 * 1024;
const NEWLINE = 10;

/** The lines that came together, without those that are blank. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, most = MOST_LINE_BYTES): AsyncGenerator<Uint8Array[]> {
  let rest: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    const lines: Uint8Array[] = [];
    let begin = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, begin)) {
      const line = join([...rest, chunk.subarray(begin, end)]);
      rest = [];
      size = 0;
      begin = end + 1;
      if (line.some((byte) => byte > 32)) lines.push(line);
    }
    if (lines.length > 0) yield lines;
    rest.push(chunk.subarray(begin));
    size += chunk.length - begin;
    if (size > most) throw new ProtocolError(`a line of the stream is longer than ${most} bytes`);
  }
}

function join(parts: Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
