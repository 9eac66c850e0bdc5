import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { type AuditFilter, type AuditRecord, queryOf } from "../../api/audit";
import { type Names, Row, detailText, hasDetail } from "./record";

const record: AuditRecord = {
  id: "01930000-0001-7000-8000-000000000001",
  source: "edge",
  service: "edge",
  create_time: "2026-01-02T03:04:05.120Z",
  principal: "user:mallory",
  action: "price.create",
  resource: "catalog",
  resource_id: "",
  request_id: "req-7",
  address: "192.0.2.1",
  user_agent: "<b>curl</b>",
  region: "eu-1",
  outcome: "denied",
  detail: '{"outcome": "denied"}',
  position: "12",
  digest: "ab".repeat(32),
};
const row = (change: Partial<AuditRecord> = {}, names: Names = new Map()) =>
  renderToStaticMarkup(
    <table>
      <tbody>
        <Row record={{ ...record, ...change }} names={names} />
      </tbody>
    </table>,
  );

it("p10_a_denial_is_marked_and_says_who_from_where", () => {
  const text = row();
  for (const part of ["user:mallory", ">price.<wbr/>create<", "Denied", 'class="denied"', "192.0.2.1", "req-7", "&lt;b&gt;curl", "eu-1", "Position 12", 'dateTime="2026-01-02T03:04:05.120Z"']) expect(text).toContain(part);
  expect(text).not.toContain("<pre>");
});

it("work of the platform has no client, and a young record is not sealed yet", () => {
  const text = row({ outcome: "allowed", address: "", user_agent: "", request_id: "", position: "0", digest: "", detail: '{"reason": "idle"}' });
  for (const part of ["Allowed", "The platform", "Not yet in the hash chain", "<pre>"]) expect(text).toContain(part);
  expect(text).not.toContain('class="denied"');
});

it("details are laid out where they are JSON, and shown as they are otherwise", () => {
  expect(detailText('{"a": [1]}')).toBe('{\n  "a": [\n    1\n  ]\n}');
  expect(detailText("not JSON")).toBe("not JSON");
  expect(["", "{}", '{"outcome": "denied"}', '{"reason": "x"}'].map(hasDetail)).toEqual([false, false, false, true]);
});

it("only what was filled in is asked for", () => {
  const filter: AuditFilter = { principal: "user:a", action: "", resource_id: "", request_id: "", outcome: "denied", source: "", start_time: "", end_time: "" };
  expect(queryOf(filter)).toEqual({ principal: "user:a", outcome: "denied" });
});

it("what was changed is shown by its name where it has one that is known", () => {
  const id = "01930000-0000-7000-8000-00000000000a";
  const named = row({ resource: "project", resource_id: id }, new Map([[id, "vision"]]));
  expect(named).toContain("<strong>vision</strong>");
  expect(named).toContain(`title="${id}"`);
  expect(row({ resource: "project", resource_id: id })).toContain("0000000a</span>");
});
