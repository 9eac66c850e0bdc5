/** Which terminals match, and what they are called. Pure. */
import type { TerminalSession } from "../../api/types";

export type StateWord = "" | "open" | "closed";

export function kindWord({ kind }: TerminalSession): string {
  return kind === "ssh_tunnel" ? "SSH tunnel" : "Shell";
}

/** Those with every word of a search in person, project, allocation or kind, and in this state. */
export function matching(sessions: TerminalSession[], search: string, state: StateWord, slugOf: (project?: string) => string): TerminalSession[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return sessions.filter((session) => {
    const text = [session.principal, session.allocation_id, slugOf(session.project_id), kindWord(session), session.close_reason].join(" ").toLowerCase();
    const isIn = state === "" || (state === "closed") === !!session.close_time;
    return isIn && words.every((word) => text.includes(word));
  });
}
