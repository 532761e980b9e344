"""The servers of a launch at addresses on 127.0.0.1, for agents that take them only over HTTP. Open `server` first."""
