/** Which terminals are asked for, and what they are called. Pure. */
import { type Searched, namedProjects, wordsFilter } from "../../api/pages";
import type { TerminalSession } from "../../api/types";
import type { Project } from "../../session/session";

export type StateWord = "" | "open" | "closed";

export function kindWord({ kind }: TerminalSession): string {
  return kind === "ssh_tunnel" ? "SSH tunnel" : "Shell";
}

/** The filter of the API for every word of a search in person, project or why it ended, or for a whole id of an allocation or project, and for a state. */
export function terminalsFilter(search: string, state: StateWord, projects: Project[]): Searched {
  const rest = { "": "", open: "NOT close_time:*", closed: "close_time:*" }[state];
  return wordsFilter(["principal", "close_reason"], search, { ids: ["allocation_id", "project_id"], named: namedProjects(projects), rest: [rest] });
}
