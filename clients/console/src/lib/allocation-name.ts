/** What people call an allocation, everywhere that it is named to them. */
import type { Allocation } from "../api/types";

type Named = Pick<Allocation, "display_name" | "config" | "id">;

/** Its display name, otherwise its name, which is its host name. */
export function nameOf({ display_name, config, id = "" }: Named): string {
  return display_name || config?.name || id;
}
