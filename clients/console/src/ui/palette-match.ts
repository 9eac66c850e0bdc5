/** What the command palette offers for a text. Pure. */
import type { Allocation } from "../api/types";
import { nameOf } from "../lib/allocation-name";
import { projectNames } from "../lib/project-name";
import type { Project } from "../session/session";

export interface Command {
  /** Unique. */
  key: string;
  title: string;
  /** What it is, as "Page" or "Allocation". */
  kind: string;
  /** Other words that find it. */
  also?: string;
}

/** An allocation, found by both of its names. */
export function allocationCommand(allocation: Allocation): Command {
  const { id = "", config } = allocation;
  return { key: id, title: nameOf(allocation), kind: "Allocation", also: `${config?.name} ${id} ${config?.sku} ${config?.image}` };
}

/** The projects to switch to, found by their organisations too. */
export function projectCommands(projects: Project[]): (Command & { id: string })[] {
  const names = projectNames(projects);
  return projects.map(({ id, slug, organisation = "" }) => ({ id, key: `project ${id}`, title: names.get(id) ?? slug, kind: "Project", also: `switch to ${organisation} ${id}` }));
}

/** How well a text fits: 0 is best; nothing when a word of it is missing. */
function rankOf({ title, also = "", kind }: Command, words: string[]): number | undefined {
  const name = title.toLowerCase();
  const all = `${name} ${also.toLowerCase()} ${kind.toLowerCase()}`;
  if (!words.every((word) => all.includes(word))) return undefined;
  const [first = ""] = words;
  if (name.startsWith(first)) return 0;
  if (name.split(/[\s/-]+/).some((part) => part.startsWith(first))) return 1;
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
