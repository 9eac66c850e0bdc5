import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { FailureMessage, folded, partsOfFailure } from "./failure-message";

const printed = ["[   3.1] Waiting for network...", "[   4.2] Waiting for network...", "[  15.3] Waiting for network...", "no route"];
const message = `The VM has no address.\nIts serial console ended with:\n${printed.join("\n")}`;

it("the guest's last lines are a block of lines, and not part of the sentence", () => {
  const text = renderToStaticMarkup(<FailureMessage message={message} />);
  expect(text).toContain('<p class="problem-message">The VM has no address.</p>');
  expect(text).toContain('<pre class="guest-lines">[  15.3] Waiting for network... (3 times)\nno route</pre>');
  expect(renderToStaticMarkup(<FailureMessage message="No capacity." />)).toBe('<p class="problem-message">No capacity.</p>');
});

it("repeated lines are folded, others are not", () => {
  expect(folded(["a", "b", "a"])).toEqual(["a", "b", "a"]);
  expect(folded(["Waiting for sda", "Waiting for disk"])).toEqual(["Waiting for sda", "Waiting for disk"]);
  expect(partsOfFailure("One line.")).toEqual({ text: "One line.", lines: [] });
});
