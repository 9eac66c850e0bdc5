// The built console with an API that is played from a table, so that every page is seen without a platform behind it.
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const DIST = new URL("../../dist", import.meta.url).pathname;
// the gateway's own page, and the document that it reads
const REFERENCE = {
  "/reference": ["../../../../gateway/src/reference/page.html", "text/html"],
  "/reference/page.js": ["../../../../gateway/src/reference/page.js", "text/javascript"],
  "/reference/page.css": ["../../../../gateway/src/reference/page.css", "text/css"],
  "/api/openapi.json": ["../../../../docs/reference/openapi.json", "application/json"],
};
const REFERENCE_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { ".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2" };
// that of the gateway
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * Plays `answers`: "METHOD path" to a body, to a function of body and address that makes one, or to a list for a stream, which stays open unless its last message is an end. Keys may
 * have `*` for one part of a path. What changes something is kept in `changes`, and why a function threw in `refused`.
 */
export async function play(answers) {
  const changes = [];
  const refused = [];
  const streams = new Set();
  const patterns = Object.entries(answers).map(([key, answer]) => [new RegExp(`^${key.replace(/[.?+()[\]{}|^$\\]/g, "\\$&").replaceAll("*", "[^/]+")}$`), answer]);
  const server = createServer(async (request, response) => {
    const address = new URL(request.url, "http://x");
    if (address.pathname in REFERENCE) {
      const [path, type] = REFERENCE[address.pathname];
      response.writeHead(200, { "content-type": type, "content-security-policy": REFERENCE_POLICY });
      return createReadStream(new URL(path, import.meta.url)).pipe(response);
    }
    if (!["/api/", "/dev/", "/.well-known/"].some((start) => address.pathname.startsWith(start))) return file(address.pathname, request.headers["accept-encoding"] ?? "", response);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const body = text ? JSON.parse(text) : undefined;
    const key = `${request.method} ${address.pathname}`;
    const answer = patterns.find(([pattern]) => pattern.test(key))?.[1];
    if (request.method !== "GET") changes.push({ key, body });
    if (answer === undefined) {
      response.writeHead(404, { "content-type": "application/json" });
      return response.end(JSON.stringify({ error: { code: 404, status: "NOT_FOUND", message: `not scripted: ${key}`, details: [] } }));
    }
    let made = answer;
    try {
      if (typeof answer === "function") made = answer(body, address);
    } catch (error) {
      refused.push(`${key}: ${error.message}`);
      made = { error: { code: 400, status: "INVALID_ARGUMENT", message: error.message, details: [] } };
    }
    if (Array.isArray(made)) {
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      const ends = made.at(-1)?.end !== undefined;
      for (const [index, message] of [...made, ...(ends ? [] : [{ synced: {} }])].entries()) response.write(`${JSON.stringify({ ...message, resume_token: String(index) })}\n`);
      if (ends) return response.end();
      streams.add(response);
      return undefined;
    }
    const status = made?.error?.code ?? 200;
    response.writeHead(status, { "content-type": "application/json", "x-request-id": "req-1" });
    return response.end(JSON.stringify(made));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    for (const stream of streams) stream.destroy();
    server.close();
  };
  return { base: `http://127.0.0.1:${server.address().port}`, changes, refused, stop };
}

/** As the gateway serves it: compressed where the build has compressed it and the browser takes it. */
function file(pathname, accepted, response) {
  const path = join(DIST, normalize(pathname));
  const known = extname(path) !== "" && path.startsWith(DIST) && existsSync(path);
  const found = known ? path : join(DIST, "index.html");
  const encoding = [["br", ".br"], ["gzip", ".gz"]].find(([name, end]) => accepted.includes(name) && existsSync(found + end));
  response.writeHead(200, {
    "content-type": TYPES[extname(found)] ?? "application/octet-stream",
    "content-security-policy": POLICY,
    ...(encoding && { "content-encoding": encoding[0] }),
  });
  createReadStream(found + (encoding?.[1] ?? "")).pipe(response);
}
