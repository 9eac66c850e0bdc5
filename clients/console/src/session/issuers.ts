/** Where users of this platform sign in, as the gateway says. */
import { request } from "../api/client";

export interface Issuer {
  issuer: string;
  display_name: string;
  console_client_id?: string;
  scopes: string[];
  /** Added to every request for tokens. */
  parameters: Record<string, string>;
  /** What `acr` the platform asks of administrators, the most wanted first; missing where it asks for none. */
  admin_acr_values?: string[];
  /** The embedded issuer of a development stack. */
  development: boolean;
}

/** An issuer that the console has a client id at. */
export type UsableIssuer = Issuer & { console_client_id: string };

/**
 * What a request to sign in says for a second factor: to prove again who one is, and how well where the platform says so.
 * What the provider is asked for in each sign-in stays, such as the consent that some give a refresh token for.
 */
export function stepUpOf({ admin_acr_values = [], parameters = {} }: Partial<Issuer>): Record<string, string> {
  const asked = (parameters.prompt ?? "").split(" ").filter((one) => one !== "none");
  const prompt = [...new Set(["login", ...asked])].join(" ").trim();
  return { prompt, ...(admin_acr_values.length > 0 && { acr_values: admin_acr_values.join(" ") }) };
}

export async function listIssuers(): Promise<UsableIssuer[]> {
  const { issuers } = await request<{ issuers: Issuer[] }>("/.well-known/gpuaas-configuration");
  return issuers.filter((issuer): issuer is UsableIssuer => Boolean(issuer.console_client_id));
}
