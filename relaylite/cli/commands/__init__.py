"""One module a command, each with a click command called `command`; imported when it is asked for."""
