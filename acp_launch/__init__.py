"""docker compose for coding agents. Importing the package costs nothing: only the version lives here."""

__version__ = "0.1.0"
