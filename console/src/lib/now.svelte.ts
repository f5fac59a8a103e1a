// The time, once a second, for everything that says how long ago something was.

const state = $state({ now: Date.now() });
setInterval(() => {
  if (!document.hidden) state.now = Date.now();
}, 1000);

export const time = {
  get now(): number {
    return state.now;
  },
};
