import { expect, it } from "vitest";
import { kindWord, terminalsFilter } from "./terminal-rules";

const projects = [{ id: "p", slug: "vision" }, { id: "q", slug: "speech" }];

it("terminals are searched by the server: by person, project, a whole id and why they ended", () => {
  expect(terminalsFilter(" ", "", projects).filter).toBe("");
  expect(terminalsFilter("ANN Spee", "", projects).filter).toBe('(principal:"ANN" OR close_reason:"ANN") AND (principal:"Spee" OR close_reason:"Spee" OR project_id = q)');
  const id = "01930001-0000-7000-8000-000000000001";
  expect(terminalsFilter(id, "", projects).filter).toContain(`allocation_id = ${id} OR project_id = ${id}`);
});

it("one is open until it is closed", () => {
  expect([terminalsFilter("", "open", []).filter, terminalsFilter("", "closed", []).filter, terminalsFilter("ann", "closed", []).filter]).toEqual(["NOT close_time:*", "close_time:*", '(principal:"ann" OR close_reason:"ann") AND close_time:*']);
  expect([kindWord({ kind: "ssh_tunnel" }), kindWord({ kind: "shell" }), kindWord({})]).toEqual(["SSH tunnel", "Shell", "Shell"]);
});
