/** The calls around terminals: tickets, sessions, recordings. */
import { client, unwrap } from "../api/client";
import type { Ticket } from "./connection";
import type { TerminalSession } from "../api/types";

const MOST_SESSIONS = 20;

export async function openTicket(allocation_id: string): Promise<Ticket> {
  const call = client.POST("/api/v1/allocations/{allocation_id}/terminal-sessions", { params: { path: { allocation_id } }, body: {} });
  const { ticket = "", websocket_path = "" } = await unwrap(call);
  return { ticket, websocket_path };
}

export async function listSessions(allocation_id: string): Promise<TerminalSession[]> {
  const params = { path: { allocation_id }, query: { page_size: MOST_SESSIONS } };
  const page = await unwrap(client.GET("/api/v1/allocations/{allocation_id}/terminal-sessions", { params }));
  return page.sessions ?? [];
}

/** The whole asciicast of a session. */
export async function readRecording(session_id: string): Promise<string> {
  let text = "";
  let page_token = "";
  do {
    const params = { path: { session_id }, query: { page_token } };
    const page = await unwrap(client.GET("/api/v1/terminal-sessions/{session_id}/recording", { params }));
    text += page.asciicast ?? "";
    page_token = page.next_page_token ?? "";
  } while (page_token);
  return text;
}
