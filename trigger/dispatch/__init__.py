"""From hints and heads to launches: notice, recover, dispatch."""
