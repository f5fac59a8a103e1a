"""The console: its page and its files, which `make console` builds from `console/` into `built/`."""
