/** Binary messages of the terminal protocol: an offset of 8 bytes, big-endian, and data. */

const HEADER_BYTES = 8;
/** Most input bytes in one message. */
export const MAX_INPUT_BYTES = 16_384;

export interface Frame {
  offset: number;
  data: Uint8Array;
}

export function encodeFrame(offset: number, data: Uint8Array): ArrayBuffer {
  const message = new ArrayBuffer(HEADER_BYTES + data.length);
  new DataView(message).setBigUint64(0, BigInt(offset));
  new Uint8Array(message, HEADER_BYTES).set(data);
  return message;
}

/** `undefined` for what is no frame: too short, or an offset that no session reaches. */
export function decodeFrame(message: ArrayBuffer): Frame | undefined {
  if (message.byteLength <= HEADER_BYTES) return undefined;
  const offset = new DataView(message).getBigUint64(0);
  if (offset > BigInt(Number.MAX_SAFE_INTEGER)) return undefined;
  return { offset: Number(offset), data: new Uint8Array(message, HEADER_BYTES) };
}
