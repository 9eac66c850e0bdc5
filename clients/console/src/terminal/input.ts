/** Input on its way: kept until the platform has it, sent no further than its window. */
import { type Frame, MAX_INPUT_BYTES } from "./frames";

export class InputBuffer {
  /** Bytes from `acknowledged` on. */
  private kept: Uint8Array = new Uint8Array();
  private acknowledged = 0;
  private sent = 0;
  private window = 0;

  add(data: Uint8Array): void {
    const joined = new Uint8Array(this.kept.length + data.length);
    joined.set(this.kept);
    joined.set(data, this.kept.length);
    this.kept = joined;
  }

  /** Goes on with what another page had not got confirmed. */
  restore(offset: number, data: Uint8Array): void {
    this.acknowledged = this.sent = offset;
    this.kept = data;
  }

  unconfirmed(): { offset: number; data: Uint8Array } {
    return { offset: this.acknowledged, data: this.kept };
  }

  /** A session is ready: it has `offset` bytes; the rest is sent again. */
  ready(offset: number, window: number): void {
    this.window = window;
    this.acknowledge(offset);
    this.sent = this.acknowledged;
  }

  acknowledge(offset: number): void {
    if (offset <= this.acknowledged) return;
    this.kept = this.kept.slice(Math.min(offset - this.acknowledged, this.kept.length));
    this.acknowledged = offset;
    this.sent = Math.max(this.sent, offset);
  }

  /** What may be sent now; it counts as sent. */
  take(): Frame[] {
    const frames: Frame[] = [];
    const end = Math.min(this.acknowledged + this.kept.length, this.acknowledged + this.window);
    while (this.sent < end) {
      const until = Math.min(end, this.sent + MAX_INPUT_BYTES);
      const data = this.kept.slice(this.sent - this.acknowledged, until - this.acknowledged);
      frames.push({ offset: this.sent, data });
      this.sent = until;
    }
    return frames;
  }
}
