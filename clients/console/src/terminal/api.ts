/** The calls around terminals: sessions, recordings. */
import { allPages, client, unwrap } from "../api/client";
import type { TerminalSession } from "../api/types";

const MOST_SESSIONS = 20;

export async function listSessions(allocation_id: string): Promise<TerminalSession[]> {
  const params = { path: { allocation_id }, query: { page_size: MOST_SESSIONS } };
  const page = await unwrap(client.GET("/api/v1/allocations/{allocation_id}/terminal-sessions", { params }));
  return page.sessions ?? [];
}

/** Ends a session that the caller opened, also one in another window. */
export function endSession(allocation_id: string, session_id: string): Promise<TerminalSession> {
  return unwrap(client.POST("/api/v1/allocations/{allocation_id}/terminal-sessions/{session_id}:end", { params: { path: { allocation_id, session_id } } }));
}

/** The whole asciicast of a session. */
export async function readRecording(session_id: string): Promise<string> {
  const pages = await allPages((page_token) => client.GET("/api/v1/terminal-sessions/{session_id}/recording", { params: { path: { session_id }, query: { page_token } } }));
  return pages.map(({ asciicast = "" }) => asciicast).join("");
}
