/** The foot of a list that comes in pages: how many are shown, and the next ones. */
import type { Paged } from "../api/pages";
import { plural } from "../lib/text";
import { Button } from "./basics";

export function ShowMore({ of, noun }: { of: Paged<unknown>; noun: string }) {
  if (!of.more) return null;
  return (
    <>
      <span className="muted" role="status">
        {plural(of.data?.length ?? 0, noun)}, and more
      </span>
      <Button small busy={of.loadingMore} onClick={of.loadMore}>
        Show more
      </Button>
    </>
  );
}
