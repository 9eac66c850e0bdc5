/** Splits a stream of bytes into lines, wherever the network cut it. */

export class Lines {
  private readonly decoder = new TextDecoder();
  private rest = "";

  /** The lines that these bytes complete; empty ones are left out. */
  take(bytes: Uint8Array): string[] {
    const parts = (this.rest + this.decoder.decode(bytes, { stream: true })).split("\n");
    this.rest = parts.pop() ?? "";
    return parts.filter((line) => line.trim() !== "");
  }
}
