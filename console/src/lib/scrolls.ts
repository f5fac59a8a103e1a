// A region that is wider than its place scrolls by itself, and then by keyboard too.

import type { Action } from "svelte/action";

export const scrolls: Action<HTMLElement, string> = (node, label) => {
  node.setAttribute("role", "region");
  node.setAttribute("aria-label", label);
  const look = (): void => {
    if (node.scrollWidth > node.clientWidth) node.tabIndex = 0;
    else node.removeAttribute("tabindex");
  };
  const watch = new ResizeObserver(look);
  watch.observe(node);
  if (node.firstElementChild) watch.observe(node.firstElementChild);
  return {
    update: (text) => node.setAttribute("aria-label", text),
    destroy: () => watch.disconnect(),
  };
};
