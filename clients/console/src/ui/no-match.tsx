/** What a list says when nothing of it that is loaded matches: there may be more to load. */
import type { ReactNode } from "react";
import { plural } from "../lib/text";
import { Button, Empty } from "./basics";
import { Search } from "./icons";

interface More {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** Loads the next page; nothing where there is none. */
export function ShowMore({ of }: { of: More }) {
  if (!of.hasNextPage) return null;
  return (
    <Button small busy={of.isFetchingNextPage} onClick={() => of.fetchNextPage()}>
      Show more
    </Button>
  );
}

/** What of a search the server was not asked for; nothing where that is all of it. */
export function Cut({ text }: { text: string }) {
  return text ? <p className="notice" role="status">{text}</p> : null;
}

/** `children`: what to do where all is loaded. */
export function NoMatch({ title, noun = "", loaded = 0, more, clear, children }: { title: string; noun?: string; loaded?: number; /** Where only what is loaded was searched. */ more?: More; clear: () => void; children: ReactNode }) {
  return (
    <Empty
      icon={<Search size={28} />}
      title={title}
      action={
        <span className="page-actions">
          <Button onClick={clear}>Clear the filters</Button>
          {more && <ShowMore of={more} />}
        </span>
      }
    >
      {more?.hasNextPage ? `Only the ${plural(loaded, noun)} loaded so far ${loaded === 1 ? "was" : "were"} searched. Show more, or change the search.` : children}
    </Empty>
  );
}
