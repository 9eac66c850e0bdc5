import { expect, it } from "vitest";
import { Lines } from "./lines";

it("lines come out whole, wherever the network cut them, even inside a letter", () => {
  const bytes = new TextEncoder().encode('{"a":"ä€"}\n\n{"b":2}\n{"c"');
  for (let size = 1; size <= bytes.length; size++) {
    const lines = new Lines();
    const found: string[] = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...lines.take(bytes.slice(at, at + size)));
    expect(found).toEqual(['{"a":"ä€"}', '{"b":2}']);
  }
});
