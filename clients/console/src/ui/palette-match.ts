/** What the command palette offers for a text. Pure. */

export interface Command {
  /** Unique. */
  key: string;
  title: string;
  /** What it is, as "Page" or "Allocation". */
  kind: string;
  /** Other words that find it. */
  also?: string;
}

/** How well a text fits: 0 is best; nothing when a word of it is missing. */
function rankOf({ title, also = "", kind }: Command, words: string[]): number | undefined {
  const name = title.toLowerCase();
  const all = `${name} ${also.toLowerCase()} ${kind.toLowerCase()}`;
  if (!words.every((word) => all.includes(word))) return undefined;
  const [first = ""] = words;
  if (name.startsWith(first)) return 0;
  if (name.split(/[\s-]+/).some((part) => part.startsWith(first))) return 1;
  return name.includes(first) ? 2 : 3;
}

/** The best ones first; otherwise in their order. */
export function matching<T extends Command>(commands: T[], text: string, most: number): T[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const ranked = commands.flatMap((command) => {
    const rank = rankOf(command, words);
    return rank === undefined ? [] : [{ command, rank }];
  });
  return ranked
    .sort((a, b) => a.rank - b.rank)
    .slice(0, most)
    .map(({ command }) => command);
}
