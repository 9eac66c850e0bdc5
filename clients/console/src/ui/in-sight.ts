/** Rows that scroll where they are too narrow for all that they have. */
import { type RefObject, useEffect } from "react";

/** Scrolls a row so that one of its elements is in the middle of it, or in sight where it scrolls up and down; not the page, as scrollIntoView does. */
function show(row: Element, element: Element): void {
  const [outer, inner] = [row.getBoundingClientRect(), element.getBoundingClientRect()];
  row.scrollLeft += inner.left + inner.width / 2 - (outer.left + outer.width / 2);
  row.scrollTop += Math.min(0, inner.top - outer.top) + Math.max(0, inner.bottom - outer.bottom);
}

/** Keeps the element with this selector in sight: when `chosen` changes, and when the window gets another size, such as that of a phone that is turned. */
export function useInSight(row: RefObject<Element | null>, selector: string, chosen: string): void {
  useEffect(() => {
    const look = () => {
      const element = row.current?.querySelector(selector);
      if (row.current && element) show(row.current, element);
    };
    look();
    addEventListener("resize", look);
    return () => removeEventListener("resize", look);
  }, [row, selector, chosen]);
}
