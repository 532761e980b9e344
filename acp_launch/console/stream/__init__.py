"""The streamed output of a session; it never imports rich (`acp_launch.console` has the map)."""
