/** What a principal that is registered by hand may be called. Pure. */

const NAME = /^user:[A-Za-z0-9._@-]{1,128}$/;

export function principalNameProblem(name: string): string | undefined {
  return name === "" || NAME.test(name) ? undefined : "Begins with user: and has letters, digits, dots, underscores, at signs and hyphens after it.";
}

export function issuerProblem(issuer: string): string | undefined {
  if (issuer === "") return undefined;
  try {
    return ["https:", "http:"].includes(new URL(issuer).protocol) ? undefined : "The issuer is an address.";
  } catch {
    return "The issuer is an address.";
  }
}

/** Everything that must be said is said. */
export function isComplete({ name, issuer, subject }: { name: string; issuer: string; subject: string }): boolean {
  return NAME.test(name) && issuer !== "" && !issuerProblem(issuer) && subject.trim() !== "";
}
