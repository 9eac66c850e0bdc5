/** What questions are about. */
import { useState } from "react";

/**
 * What a dialog asks about, as it was when the dialog was opened, so that a change meanwhile does not turn its meaning around;
 * and what asks anew, of what is read next: for when the dialog opens, or the reader has loaded the change.
 */
export function useAsked<T>(now: T): [T, () => void] {
  const [asked, ask] = useState<{ of: T }>();
  if (!asked) ask({ of: now });
  return [asked ? asked.of : now, () => ask(undefined)];
}
