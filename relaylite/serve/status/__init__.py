"""The routes that say something of the server, its model and its requests."""
