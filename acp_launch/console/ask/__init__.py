"""Questions to the user at a terminal (`acp_launch.console` has the map)."""
