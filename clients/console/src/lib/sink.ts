/** Where a long text goes that comes piece by piece: into a file of the reader's, or, in browsers that cannot write to one, into memory. */
import { Problem } from "../api/problem";
import { saveFile } from "./csv";

/** Most bytes that are kept in memory. */
export const MOST_IN_MEMORY = 256 * 1024 * 1024;

export interface Sink {
  /** Resolves when the next piece may come. */
  write: (text: string) => Promise<void>;
  /** Everything was written. */
  close: () => Promise<void>;
  /** What was written is thrown away. */
  abort: () => Promise<void>;
  /** The most bytes that it takes; undefined: any number. */
  most?: number;
}

type Picker = (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;

/** The File System Access API, which some browsers have, on pages over HTTPS. */
const picker = () => (globalThis as { showSaveFilePicker?: Picker }).showSaveFilePicker;

/** Whether what is written leaves the memory piece by piece. */
export function canStream(): boolean {
  return picker() !== undefined;
}

/** In memory until it is whole, at most so many bytes. */
export function memorySink(name: string, type: string, most = MOST_IN_MEMORY): Sink {
  // a part of its own for each piece: browsers move large ones out of the memory of the page
  let parts: Blob[] = [];
  let size = 0;
  return {
    write: async (text) => {
      const part = new Blob([text]);
      size += part.size;
      if (size > most) throw new Problem({ status: 0, message: `The file exceeds the ${Math.floor(most / 1024 / 1024)} MiB that this browser can keep in memory. Export less, or use the command line.` });
      parts.push(part);
    },
    close: async () => saveFile(name, new Blob(parts, { type })),
    abort: async () => {
      parts = [];
    },
    most,
  };
}

/** Asks the reader where to, in browsers that can write to files; undefined where the reader wants none. Call it on a click. */
export async function openSink(name: string, type: string): Promise<Sink | undefined> {
  const pick = picker();
  if (!pick) return memorySink(name, type);
  try {
    const file = await (await pick({ suggestedName: name })).createWritable();
    return { write: (text) => file.write(text), close: () => file.close(), abort: () => file.abort() };
  } catch (error) {
    const why = error instanceof DOMException ? error.name : "";
    // no file was chosen, or it may not be written to
    if (why === "AbortError" || why === "NotAllowedError") return undefined;
    // a policy of the browser or of its owner
    if (why === "SecurityError") return memorySink(name, type);
    throw error;
  }
}
