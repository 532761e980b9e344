"""One launch: the agent is started, met, given its servers and its session, and all of it is ended (`run`)."""
