/** Input on its way: kept until the platform has it, sent no further than its window. */
import { type Frame, MAX_INPUT_BYTES } from "./frames.js";

export class InputBuffer {
  /** Bytes from `#acknowledged` on. */
  #kept: Uint8Array = new Uint8Array();
  #acknowledged = 0;
  #sent = 0;
  #window = 0;

  add(data: Uint8Array): void {
    const joined = new Uint8Array(this.#kept.length + data.length);
    joined.set(this.#kept);
    joined.set(data, this.#kept.length);
    this.#kept = joined;
  }

  /** Goes on with what another page had not got confirmed. */
  restore(offset: number, data: Uint8Array): void {
    this.#acknowledged = this.#sent = offset;
    this.#kept = data;
  }

  unconfirmed(): { offset: number; data: Uint8Array } {
    return { offset: this.#acknowledged, data: this.#kept };
  }

  progress(): { all: number; sent: number } {
    return { all: this.#acknowledged + this.#kept.length, sent: this.#sent };
  }

  /** A session is ready: it has `offset` bytes; the rest is sent again. False for an offset that makes no sense. */
  ready(offset: number, window: number): boolean {
    if (offset < this.#acknowledged || offset > this.#acknowledged + this.#kept.length) return false;
    this.#window = window;
    this.#sent = offset;
    return true;
  }

  /** False for an offset that makes no sense. */
  acknowledge(offset: number): boolean {
    if (offset < this.#acknowledged || offset > this.#sent) return false;
    this.#kept = this.#kept.slice(offset - this.#acknowledged);
    this.#acknowledged = offset;
    return true;
  }

  /** What may be sent now; it counts as sent. */
  take(): Frame[] {
    const frames: Frame[] = [];
    const end = Math.min(this.#acknowledged + this.#kept.length, this.#acknowledged + this.#window);
    while (this.#sent < end) {
      const until = Math.min(end, this.#sent + MAX_INPUT_BYTES);
      const data = this.#kept.slice(this.#sent - this.#acknowledged, until - this.#acknowledged);
      frames.push({ offset: this.#sent, data });
      this.#sent = until;
    }
    return frames;
  }
}
