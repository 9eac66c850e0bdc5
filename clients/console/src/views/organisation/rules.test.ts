import { expect, it } from "vitest";
import { tabOf } from "../../ui/use-query-state";
import { chosenOf, tabsOf } from "./rules";

it("an organisation is shown to its members, the wanted one or the first", () => {
  const all = [{ id: "a" }, { id: "b", role: "viewer" as const }, { id: "c", role: "owner" as const }, { id: "d", role: "unspecified" as const }];
  expect(chosenOf(all, "c").chosen?.id).toBe("c");
  expect(chosenOf(all, "").chosen?.id).toBe("b");
  expect(chosenOf(all, "a").chosen?.id).toBe("b");
  expect(chosenOf(all, "").members.length).toBe(2);
  expect(chosenOf([{ id: "a" }], "a").chosen).toBeUndefined();
});

it("a view that the reader does not have in the organisation is not an empty page", () => {
  const owns = tabsOf({ role: "owner" }, true);
  const reads = tabsOf({ role: "viewer" }, false);
  expect([tabOf("webhooks", owns), tabOf("webhooks", reads), tabOf("settings", reads), tabOf("anything", owns)]).toEqual(["webhooks", "members", "settings", "members"]);
  expect(tabsOf({}, true)).toEqual(["members", "invitations", "projects", "webhooks", "settings"]);
});
