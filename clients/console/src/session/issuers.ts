/** Where users of this platform sign in, as the gateway says. */
import { request } from "../api/client";

export interface Issuer {
  issuer: string;
  display_name: string;
  console_client_id?: string;
  scopes: string[];
  /** Added to every request for tokens. */
  parameters: Record<string, string>;
  /** The embedded issuer of a development stack. */
  development: boolean;
}

/** An issuer that the console has a client id at. */
export type UsableIssuer = Issuer & { console_client_id: string };

export async function listIssuers(): Promise<UsableIssuer[]> {
  const { issuers } = await request<{ issuers: Issuer[] }>("/.well-known/gpuaas-configuration");
  return issuers.filter((issuer): issuer is UsableIssuer => Boolean(issuer.console_client_id));
}
