import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/keyfold/server/console/built",
    emptyOutDir: true,
    target: "es2022",
    // The content security policy allows files of this server alone: no data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  // While you write: `npx vite` here, beside `keyfold serve` or `keyfold demo`.
  server: { proxy: { "/api": { target: "http://127.0.0.1:8642", changeOrigin: true } } },
});
