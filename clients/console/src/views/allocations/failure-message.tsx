/** Why an allocation failed, with what the guest printed last as lines. */
const GUEST = "\nIts serial console ended with:\n";

/** The sentence, and the guest's lines. */
export function partsOfFailure(message: string): { text: string; lines: string[] } {
  const at = message.indexOf(GUEST);
  if (at < 0) return { text: message, lines: [] };
  return { text: message.slice(0, at), lines: folded(message.slice(at + GUEST.length).split("\n")) };
}

/** Lines that differ from the one before in numbers alone, such as times, are one line with their count. */
export function folded(lines: string[]): string[] {
  const found: { key: string; line: string; count: number }[] = [];
  for (const line of lines) {
    const key = line.replace(/\d+/g, "0").replace(/\s+/g, " ").trim();
    const last = found.at(-1);
    if (last && last.key === key) Object.assign(last, { line, count: last.count + 1 });
    else found.push({ key, line, count: 1 });
  }
  return found.map(({ line, count }) => (count > 1 ? `${line} (${count} times)` : line));
}

export function FailureMessage({ message = "" }: { message?: string | undefined }) {
  const { text, lines } = partsOfFailure(message);
  return (
    <>
      <p className="problem-message">{text}</p>
      {lines.length > 0 && (
        <>
          <p>Its serial console ended with:</p>
          <pre className="guest-lines">{lines.join("\n")}</pre>
        </>
      )}
    </>
  );
}
