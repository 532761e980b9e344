"""The user's own knobs: directories, limits, where secrets are kept."""
