/** Settings from the environment, for Node.js. */
import { readFile } from "node:fs/promises";
import { Client, type ClientOptions } from "./client.js";
import { UsageError } from "./errors.js";

export { isGenuineWebhook, type WebhookCheck } from "./webhooks.js";

/** How long whoever renews a token file is given to complete it. */
const RENEWAL_MS = 200;

/**
 * A token that is read from the file for every call, so that a renewed one is used. A file that is empty or missing, as
 * one is for a moment while it is written anew, is read once more after `pause`.
 */
export function tokenFile(path: string, pause: () => Promise<void> = () => new Promise((resolve) => setTimeout(resolve, RENEWAL_MS))): () => Promise<string> {
  return async () => {
    const token = await readFile(path, "latin1").catch(() => "");
    if (token.trim() !== "") return token;
    await pause();
    return readFile(path, "latin1").catch((error: NodeJS.ErrnoException) => {
      throw new UsageError(`the token file ${path} cannot be read: ${error.code}`);
    });
  };
}

/** A client of `GPUAAS_API` with `GPUAAS_TOKEN`, or the token of `GPUAAS_TOKEN_FILE`; options go before them. */
export function clientFromEnvironment(options: Partial<ClientOptions> = {}, environment: NodeJS.ProcessEnv = process.env): Client {
  const { GPUAAS_API: api, GPUAAS_TOKEN: token, GPUAAS_TOKEN_FILE: file } = environment;
  const baseUrl = options.baseUrl ?? api;
  if (!baseUrl) throw new UsageError("no API address is set; pass baseUrl or set GPUAAS_API");
  return new Client({ ...options, baseUrl, token: options.token ?? (token || (file ? tokenFile(file) : undefined)) });
}
