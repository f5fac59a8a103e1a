// Light or dark: what the machine prefers, unless this browser was told otherwise.

type Theme = "light" | "dark";
const STORED = "keyfold-theme";

function stored(): Theme | null {
  try {
    const found = localStorage.getItem(STORED);
    return found === "light" || found === "dark" ? found : null;
  } catch {
    return null; // Storage may be forbidden.
  }
}

const preferred = matchMedia("(prefers-color-scheme: dark)");
const state = $state({ chosen: stored(), dark: preferred.matches });
preferred.addEventListener("change", (event) => {
  state.dark = event.matches;
  applyTheme();
});

export const theme = {
  get dark(): boolean {
    return state.chosen === null ? state.dark : state.chosen === "dark";
  },
};

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = theme.dark ? "dark" : "light";
}

export function switchTheme(): void {
  state.chosen = theme.dark ? "light" : "dark";
  try {
    localStorage.setItem(STORED, state.chosen);
  } catch {
    // It then lasts until the page is closed.
  }
  applyTheme();
}
