"""Logs, metrics and error reports. Importing this package loads neither OpenTelemetry nor Sentry."""
