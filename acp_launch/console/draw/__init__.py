"""The drawn output of a session on a terminal, with rich (`acp_launch.console` has the map)."""
