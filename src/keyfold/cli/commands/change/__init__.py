"""Commands that change an app's home: migrations, erasure, removal."""
