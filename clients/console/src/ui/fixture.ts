/** For tests, which have no browser: views that are called as functions. */
import { type Dispatch, type ReactNode, type SetStateAction, isValidElement } from "react";

/** The state of a view from one call to the next, in place of React's. */
export function keptState() {
  const cells: unknown[] = [];
  let at = 0;
  return {
    useState<T>(first: T | (() => T)): [T, Dispatch<SetStateAction<T>>] {
      const cell = at++;
      if (!(cell in cells)) cells[cell] = first instanceof Function ? first() : first;
      const set = (next: SetStateAction<T>) => {
        cells[cell] = next instanceof Function ? next(cells[cell] as T) : next;
      };
      return [cells[cell] as T, set];
    },
    /** For another test with another view. */
    forget(): void {
      cells.length = 0;
    },
    /** Calls the view, with its state. */
    drawn(view: () => ReactNode): ReactNode {
      at = 0;
      return view();
    },
  };
}

/** The properties of the first element that has this one. */
export function partOf<P>(node: ReactNode, name: keyof P & string): P | undefined {
  if (Array.isArray(node)) {
    for (const one of node as ReactNode[]) {
      const found = partOf<P>(one, name);
      if (found) return found;
    }
    return undefined;
  }
  if (!isValidElement<{ children?: ReactNode }>(node)) return undefined;
  return name in node.props ? (node.props as P) : partOf<P>(node.props.children, name);
}
