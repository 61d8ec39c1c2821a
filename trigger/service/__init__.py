"""The long-running trigger: rounds, `watch`, `serve`, and their health."""
