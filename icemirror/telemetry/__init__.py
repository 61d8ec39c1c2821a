"""Logs, metrics and error reports. Importing it loads neither OpenTelemetry nor Sentry."""
