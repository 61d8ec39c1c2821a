"""The one YAML file that configures everything."""
