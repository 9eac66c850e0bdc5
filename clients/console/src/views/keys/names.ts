/** Names of SSH keys. Pure. */

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;

export function keyNameProblem(name: string): string | undefined {
  return NAME.test(name) ? undefined : "1 to 63 letters, digits, dots, underscores and hyphens; the first is a letter or digit.";
}

/** A name out of the comment of a key, such as that of the machine it was made on. */
export function nameFrom(line: string): string {
  const comment = line.split(/\s+/).slice(2).join("-");
  return comment.replaceAll(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").replace(/-+$/, "").slice(0, 63);
}
